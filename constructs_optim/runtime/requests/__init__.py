"""What the handlers are asked: the properties of custom resources, validated before anything is done with them."""

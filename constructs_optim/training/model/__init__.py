"""The model and its heads: loading, writing and recognizing them, as servers read them."""

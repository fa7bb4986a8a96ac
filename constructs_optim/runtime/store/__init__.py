"""The records that an artifact store keeps in S3: claims, manifests, owners and runs."""

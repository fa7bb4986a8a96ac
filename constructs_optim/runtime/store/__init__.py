"""An artifact store's records in S3: claims, manifests, owners, and runs."""

"""Embeddings of images, captions and sound, and their index."""

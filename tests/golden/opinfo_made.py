"""Samples of our own."""

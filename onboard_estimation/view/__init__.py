"""The live picture in the browser."""

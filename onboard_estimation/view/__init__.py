"""The live and the recorded picture in the browser."""

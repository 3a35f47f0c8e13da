"""May it run: whose signatures count, and whether an image has them."""

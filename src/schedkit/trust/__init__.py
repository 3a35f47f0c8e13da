"""May it run: whose signatures are trusted, and whether an image has them."""

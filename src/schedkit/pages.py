"""Where the documentation can be read, for messages that name one of its pages: who installed schedkit has no docs/."""

REPOSITORY = "https://github.com/schedkit/schedkit"


def name_page(path: str) -> str:
    """The address of a page, given as its path below docs/."""
    return f"{REPOSITORY}/blob/main/docs/{path}"

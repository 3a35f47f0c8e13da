"""`python -m schedkit` is schedctl."""

from schedkit.schedctl.main import main

main()

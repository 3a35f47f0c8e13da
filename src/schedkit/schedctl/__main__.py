"""`python -m schedkit.schedctl`: how schedctl starts itself in the background."""

from schedkit.schedctl.main import main

main()

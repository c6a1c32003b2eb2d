"""`python -m opaq`."""

from opaq.cli.main import run

if __name__ == "__main__":
    run()

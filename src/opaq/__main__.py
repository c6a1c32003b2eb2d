"""`python -m opaq`."""

from opaq.cli.interrupts import run

if __name__ == "__main__":
    run()

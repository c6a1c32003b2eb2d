"""The version of opaq, and what its optional parts need."""

__version__ = "0.1.0"

# Extra -> the packages it brings. Whoever misses one has opaq, and installs these beside it.
EXTRAS = {
    "storm": ("stormpy>=2.0,<3",),
    "gym": ("gymnasium>=1.0",),
    "dataframes": ("pandas>=2.2", "pyarrow>=17"),
    "ray": ("ray[client]>=2.40",),
}


def pip_install(extra: str) -> str:
    """Return the command that installs what an optional part needs.

    extra: its name; of a format of your own, the package that it needs.
    """
    return f"pip install {' '.join(repr(package) for package in EXTRAS.get(extra, (extra,)))}"

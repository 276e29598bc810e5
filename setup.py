"""Which folders are packages; pyproject.toml says everything else.

The folders at the root are the subpackages of ``pyzk``. Each is mapped by its name, because the links in
``pyzk/`` do not exist in a source distribution, nor in a clone on Windows.
"""

from setuptools import find_packages, setup

FOLDERS = ("aio", "blocking", "bridge", "cli", "client", "protocol", "recipes", "server")

setup(
    packages=[
        "pyzk",
        *(f"pyzk.{name}" for each in FOLDERS for name in find_packages(include=[each, f"{each}.*"])),
    ],
    package_dir={f"pyzk.{folder}": folder for folder in FOLDERS},
)

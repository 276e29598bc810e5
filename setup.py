"""Which folders are packages; pyproject.toml says everything else.

The folders at the root are the subpackages of ``pyzk``. Each is mapped by its name, because the links in
``pyzk/`` do not exist in a source distribution, nor in a clone on Windows.
"""

from setuptools import find_packages, setup

# What `pyzk helper` writes: no modules. In the wheel they are in pyzk/examples, at the same places as there.
HELPERS = {
    "java": ["src/main/java/pyzk/*.java"],
    "go": ["pyzktest/pyzktest.go"],
    "node": ["pyzk.mjs"],
}
FOLDERS = ("aio", "blocking", "bridge", "cli", "client", "protocol", "recipes", "server")

setup(
    packages=[
        "pyzk",
        *(f"pyzk.examples.{language}" for language in HELPERS),
        *(f"pyzk.{name}" for each in FOLDERS for name in find_packages(include=[each, f"{each}.*"])),
    ],
    package_dir={f"pyzk.{folder}": folder for folder in (*FOLDERS, "examples")},
    package_data={
        "pyzk": ["py.typed"],
        "pyzk.server.control": ["page/*"],
        **{f"pyzk.examples.{language}": names for language, names in HELPERS.items()},
    },
    include_package_data=False,  # these files and no others of their folders
)

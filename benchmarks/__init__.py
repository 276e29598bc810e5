"""How fast the server is, how it grows, and that it stays so: see README.md in this folder."""

from .compiled import keep_compiled

keep_compiled()

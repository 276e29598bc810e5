"""What some tests need of the machine."""

from __future__ import annotations

import os

import pytest


def need(missing: str | None) -> None:
    """Skip the test where something is missing; fail where the environment says that all must be there.

    :param missing: what there is not, such as ``no java on the PATH``; None if nothing is missing.
    """
    if missing and os.environ.get("PYZK_REQUIRE_REAL"):
        pytest.fail(f"PYZK_REQUIRE_REAL is set, but there is {missing}")
    if missing:
        pytest.skip(f"there is {missing}")

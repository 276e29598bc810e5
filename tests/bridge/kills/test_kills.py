"""Leaders die one after the other while clients of every recipe are at work: nothing is held by two, lost or
doubled, and nobody waits for ever. With trio, with threads and with asyncio, on a pretended ensemble;
HYPOTHESIS_PROFILE=nightly: on a real one and with uvloop, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pyzk import recipes
from pyzk.bridge.wrapped import FUNCTIONS, WRAPPED
from pyzk.server.testing import EmbeddedEnsemble

from ...support import jvm
from ...support.needs import need
from ...support.real import Ensemble
from ..drivers import DRIVERS, Driver
from . import groups, holds, values
from .ensembles import Pretended, Real, Service
from .run import Run
from .workload import WORKLOADS, Workload

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="it takes minutes: HYPOTHESIS_PROFILE=nightly")

PARTS = (groups, holds, values)
"""Where the workloads are."""

MADE_BY_OTHERS = {"Grant", "Grants", "Term", "WriteGrant"}
"""Classes of which a program makes no objects."""

drivers = pytest.mark.parametrize(
    "driver",
    [driver for driver in DRIVERS if NIGHTLY or driver.name != "uvloop"],
    ids=lambda driver: driver.name,
)


@pytest.fixture
def pretended() -> Iterator[Service]:
    with EmbeddedEnsemble(3, clock="frozen", extended_types=True) as ensemble:
        yield Pretended(ensemble)


@drivers
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_leaders_of_a_pretended_ensemble_die(pretended: Service, driver: Driver, workload: Workload) -> None:
    Run(pretended, [workload]).drive(driver)


@nightly
@drivers
def test_leaders_of_a_real_ensemble_die(driver: Driver) -> None:
    need(jvm.missing())
    with Ensemble(3) as ensemble:
        Run(Real(ensemble), WORKLOADS).drive(driver)


def test_every_recipe_has_a_workload() -> None:
    shown = {name for workload in WORKLOADS for name in workload.uses}
    classes = {cls.__name__ for cls in WRAPPED if cls.__name__ in recipes.__all__}
    functions = {function.__name__ for function in FUNCTIONS if function.__name__ in recipes.__all__}
    assert (classes | functions) - MADE_BY_OTHERS - shown == set()

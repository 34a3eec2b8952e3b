"""A container that the kernel kills is explained by `launcher report` and `launcher top`."""

import pytest

from tests.engines.images import PYTHON_IMAGE, make_images
from tests.scenarios.test_first_failures import explained

pytestmark = pytest.mark.engine


def test_a_container_that_ran_out_of_memory_is_explained(scenario):
    make_images(PYTHON_IMAGE)
    script = "echo loading; python3 -c 'held = bytearray(256 << 20)'"
    scenario.run_to_end(scenario.job(script, role="resource: {memory: 32MiB}", image=PYTHON_IMAGE), code=5)
    explained(scenario, "job", "main/0", "out of memory", "loading")

"""The failures of a first day with containers: the same tests, and a container that the kernel kills."""

import pytest

from tests.engines.images import PYTHON_IMAGE, make_images
from tests.scenarios.test_first_failures import (  # noqa: F401
    explained,
    test_a_failed_job_is_explained_with_its_last_lines,
    test_a_job_that_waits_for_ever_names_the_jobs_that_it_waits_for,
)

pytestmark = pytest.mark.engine


@pytest.fixture
def image():
    make_images(PYTHON_IMAGE)
    return {"image": PYTHON_IMAGE}


def test_a_container_that_ran_out_of_memory_is_explained(scenario, image):
    script = "echo loading; python3 -c 'held = bytearray(256 << 20)'"
    scenario.run_to_end(scenario.job(script, role="resource: {memory: 32MiB}", **image), code=5)
    explained(scenario, "job", "main/0", "out of memory", "loading")

"""Real servers and their clients in containers: the same tests, under the targets `docker`."""

import pytest

from tests.engines.images import PYTHON_IMAGE, REDIS_IMAGE, make_images
from tests.scenarios.test_services import (  # noqa: F401
    assert_served,
    copied,
    port,
    test_redis_serves_its_benchmark,
    test_workers_reach_their_parameter_server,
)

pytestmark = pytest.mark.engine
IMAGES = {"parameters": lambda: make_images(PYTHON_IMAGE), "redis": lambda: make_images(REDIS_IMAGE)}
"""Job → what makes the image that it runs in."""


@pytest.fixture
def redis_server():
    """The image has the server: no other one is needed."""


@pytest.fixture
def served(scenario, port):  # noqa: F811
    def served(folder, job, **expected):
        IMAGES[job]()
        file = copied(scenario, folder) / f"{job}.launcher.yaml"
        assert_served(scenario, file, port, on=("--target", "docker"), **expected)
        assert {one.state for one in scenario.containers()} == {"exited"}

    return served

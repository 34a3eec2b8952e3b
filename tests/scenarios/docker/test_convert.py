"""A compose file that was converted runs on the engine as Compose runs it."""

from tests.engines.images import SHELL_IMAGE

COMPOSE = f"""\
services:
  client:
    image: {SHELL_IMAGE}
    command: ["sh", "-c", "wget -qO - $$URL/page; cat /data/seed"]
    environment:
      URL: http://server:8000
    volumes: ["data:/data:ro"]
    depends_on:
      server: {{condition: service_healthy}}
      seed: {{condition: service_completed_successfully}}
  server:
    image: {SHELL_IMAGE}
    command: sh -c 'mkdir -p /www && echo "hello $$GREETED" >/www/page && exec httpd -f -p 8000 -h /www'
    environment: ["GREETED=${{NAME:-you}} $$<app_id>"]
    healthcheck: {{test: "wget -qO - http://localhost:8000/page", interval: 1s, retries: 60}}
    mem_limit: 64m
    restart: unless-stopped
  seed:
    image: {SHELL_IMAGE}
    command: sh -c 'echo seeded >/data/seed'
    volumes: ["data:/data"]
volumes:
  data: {{name: VOLUME}}
"""


def test_services_become_roles_that_find_each_other(scenario):
    volume = f"{scenario.token}-data"
    scenario.write("compose.yaml", COMPOSE.replace("VOLUME", volume))
    job = scenario.write(
        "shop.launcher.yaml", scenario.launcher("convert", "compose.yaml", "--name", "shop").out
    )
    scenario.run_to_end(job)
    assert scenario.logs("shop/client", "--no-prefix") == "hello you $<app_id>\nseeded\n"
    scenario.daemon.remove(each for each in scenario.daemon.volumes() if each.name == volume)

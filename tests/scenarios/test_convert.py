"""Job files that `launcher convert` writes, run on this machine."""

FOREMAN = """\
release: echo migrated > state
web: test -f state && echo "port $PORT, $UNSET$<app_id>" && false | true
"""


def test_a_converted_procfile_runs_as_foreman_runs_it(scenario):
    scenario.write("Procfile", FOREMAN)
    scenario.write("shop.launcher.yaml", scenario.launcher("convert", "Procfile", "--name", "shop").out)
    scenario.run_to_end("shop.launcher.yaml")
    assert scenario.logs("shop", "--no-prefix") == "port 5100, $<app_id>\n"


def test_a_converted_secret_is_read_from_the_environment_of_launcher(scenario, monkeypatch):
    scenario.write("Procfile", "web: API_TOKEN=l1teral printenv API_TOKEN\n")
    made = scenario.launcher("convert", "Procfile", "--name", "shop")
    assert "l1teral" not in made.out + made.err
    job = scenario.write("shop.launcher.yaml", made.out)
    assert "API_TOKEN" in scenario.apply(job, code=1).err
    monkeypatch.setenv("API_TOKEN", "given")
    scenario.run_to_end(job)
    assert scenario.logs("shop", "--no-prefix") == "given\n"

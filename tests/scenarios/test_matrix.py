"""A family of jobs: what runs is one job for each combination, and only new ones run."""


def test_a_new_value_on_an_axis_plans_one_new_job_for_each_combination(scenario):
    def family(seeds):
        return scenario.job("true", name="grid", top=f"matrix: {{lr: [0.1, 0.01], seed: {seeds}}}")

    scenario.run_to_end(family("[1, 2]"))
    made = scenario.apps()
    file = family("[1, 2, 3]")
    new = {job for job, action in scenario.actions(file).items() if action != "keep"}
    assert len(made) == 4
    assert len(new) == 2
    scenario.run_to_end(file)
    assert len(scenario.apps()) == 6
    assert set(scenario.actions(file).values()) == {"keep"}


def test_a_plan_says_once_that_nothing_refers_to_an_axis(scenario):
    file = scenario.job("echo $<matrix.lr>", name="grid", top="matrix: {lr: [0.1, 0.2], seed: [1, 2, 3]}")
    shown = scenario.launcher("plan", file).out
    assert shown.count("note: nothing refers to `$<matrix.seed>`: the jobs of its 3 values are alike") == 1
    assert "matrix.lr" not in shown
    scenario.run_to_end(file)
    assert "nothing refers" not in scenario.launcher("plan", file).out

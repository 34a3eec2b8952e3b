"""The apps that the built-in components make of their arguments."""

import pytest

import launcher
from launcher.components import (
    DocstringValidator,
    get_component,
    get_components,
    materialize_appdef,
    validate,
)
from launcher.components.structured_arg import (
    StructuredJArgument,
    StructuredNameArgument,
    get_role_name,
    parse_nnodes,
)
from launcher.specs import BindMount, Resource, check_app

NEEDED = {
    "utils.touch": ["--file=x"],
    "utils.sh": ["true"],
    "utils.python": ["-c", "pass"],
    "utils.binary": ["--entrypoint", "/bin/true"],
    "utils.copy": ["--src=a", "--dst=b"],
    "utils.booth": ["--x1=1", "--x2=2"],
    "dist.ddp": ["--script", "train.py"],
    "dist.spmd": ["--script", "train.py"],
    "metrics.tensorboard": ["--logdir", "/logs"],
    "serve.torchserve": ["--model_path", "m.mar", "--management_api", "http://localhost:8081"],
}


def made(name, *words):
    return materialize_appdef(get_component(name).fn, words)


def role(name, *words):
    [only] = made(name, *words).roles
    return only


@pytest.mark.parametrize("name", sorted(get_components()))
def test_each_component_describes_itself_and_makes_an_app_that_can_run(name):
    assert check_app(made(name, *NEEDED.get(name, []))) == []
    found = get_component(name)
    assert validate(found.path, found.fn_name, [DocstringValidator()]) == []


def test_echo_runs_echo_with_its_message_in_each_replica():
    found = role("utils.echo", "--msg", "hi", "--num_replicas", "2")
    assert (found.entrypoint, found.args, found.num_replicas) == ("echo", ["hi"], 2)
    assert found.resource == Resource(1, 0, 1024)


def test_sh_hands_each_word_over_as_it_is_to_sh_or_to_the_given_program():
    options = ["--env", "A=1,B=2", "--mounts", "type=bind,src=/a,dst=/b,readonly"]
    found = role("utils.sh", *options, "echo", "$HOME", "x y")
    assert (found.entrypoint, found.args) == ("sh", ["-c", "echo '$HOME' 'x y'"])
    assert (found.env, found.mounts) == ({"A": "1", "B": "2"}, [BindMount("/a", "/b", True)])
    found = role("utils.sh", "--entrypoint", "/bin/tool", "x y", "--flag")
    assert (found.entrypoint, found.args) == ("/bin/tool", ["x y", "--flag"])


@pytest.mark.parametrize(
    "name", ["utils.echo", "utils.touch", "utils.copy", "utils.booth", "serve.torchserve"]
)
def test_small_components_ask_for_one_core_and_one_gibibyte(name):
    assert role(name, *NEEDED.get(name, [])).resource == Resource(1, 0, 1024)


def test_the_default_image_and_the_app_of_torchserve_have_public_names():
    assert role("utils.echo").image == launcher.IMAGE
    assert made("serve.torchserve", *NEEDED["serve.torchserve"]).name == "launcher-torchserve"


def test_a_named_resource_stands_for_its_parts():
    assert role("utils.sh", "-h", "gpu.small", "--cpu", "3", "true").resource == Resource(8, 1, 32 * 1024)
    assert role("utils.sh", "--gpu", "0", "--cpu", "0", "true").resource == Resource(0, 0, 1024)


def test_python_runs_exactly_one_of_a_module_a_text_and_a_script():
    assert role("utils.python", "-m", "pkg", "--", "--lr", "1").args == ["-m", "pkg", "--lr", "1"]
    assert role("utils.python", "-c", "pass", "x").args == ["-c", "pass", "x"]
    assert role("utils.python", "--script", "a.py").args == ["a.py"]
    for words in ([], ["-m", "a", "-c", "b"]):
        with pytest.raises(ValueError, match="exactly one of"):
            made("utils.python", *words)


def test_ddp_on_one_node_runs_torchrun_with_a_local_rendezvous():
    app = made("dist.ddp", "--script", "a/train.py", "-j", "1x4", "--", "--msg", "x y")
    [found] = app.roles
    assert (app.name, found.name, found.entrypoint, found.args[0]) == ("train", "train", "bash", "-c")
    assert found.args[1] == (
        "torchrun --rdzv_backend c10d --rdzv_endpoint localhost:0 --rdzv_id '${app_id}' --nnodes 1 "
        "--nproc_per_node 4 --tee 3 --role '' a/train.py --msg 'x y'"
    )
    assert found.port_map == {"c10d": 29500}


def test_ddp_on_several_nodes_meets_at_replica_0():
    found = role("dist.ddp", "-m", "pkg.train", "-j", "1:2x3", "--rdzv_port", "5", "--rdzv_backend", "static")
    assert (found.name, found.min_replicas, found.num_replicas) == ("train", 1, 2)
    assert "--rdzv_endpoint $${${rank0_env}:=localhost}:5 " in found.args[1]
    assert "--nnodes 1:2 --nproc_per_node 3 " in found.args[1]
    assert found.args[1].endswith("--node_rank '${replica_id}' -m pkg.train")


def test_ddp_leaves_the_callers_environment_alone():
    from launcher.components.dist import ddp

    given = {"A": "1"}
    [found] = ddp(script="t.py", env=given, debug=True, name="exp/run").roles
    assert given == {"A": "1"}
    assert found.env["A"] == "1"
    assert found.env["NCCL_DESYNC_DEBUG"] == "1"
    assert found.env["LAUNCHER_TRACKING_EXPERIMENT_NAME"] == "exp"


def test_spmd_starts_a_process_for_each_gpu():
    found = role("dist.spmd", "-m", "x", "-h", "gpu.medium", "-j", "3")
    assert "--nnodes 3 --nproc_per_node 2 " in found.args[1]
    assert found.resource.gpu == 2


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("2", (1, 1, 2, "1")), ("1x2", (1, 1, 2, "1")), ("2x3", (2, 2, 3, "2")), ("1:2x3", (1, 2, 3, "1:2"))],
)
def test_the_argument_j_is_read_as_nodes_and_processes(text, nodes):
    assert parse_nnodes(text) == nodes


@pytest.mark.parametrize("text", ["1x", "x2", ":3", ":2x1", "1x2:3", "4:2x1", "0x1", "1x0", "", "a"])
def test_text_that_is_no_number_of_nodes_is_refused(text):
    with pytest.raises(ValueError, match="Given: "):
        parse_nnodes(text)


@pytest.mark.parametrize(("text", "experiment", "run"), [
    *(("e/r", "e", "r"), ("e/", "e", "main"), ("/r", "default-experiment", "r"), ("a/b/c", "a", "b/c")),
    *(("r", "default-experiment", "r"), *((text, "default-experiment", "main") for text in ("/", ""))),
])  # fmt: skip
def test_a_structured_name_has_an_experiment_and_a_run(text, experiment, run):
    found = StructuredNameArgument.parse_from(text, m="pkg.main")
    assert (found.experiment_name, found.run_name, str(found)) == (experiment, run, f"{experiment}/{run}")


def test_a_structured_name_needs_exactly_one_program():
    with pytest.raises(ValueError, match="No main module or script specified"):
        StructuredNameArgument.parse_from("x")
    with pytest.raises(ValueError, match="Both main module and script set"):
        StructuredNameArgument.parse_from("x", m="a", script="b")


def test_the_number_of_processes_follows_the_gpus_of_the_resource():
    assert str(StructuredJArgument.parse_from("gpu.medium", "2")) == "2x2"
    with pytest.warns(UserWarning, match="3 processes per node, and gpu.medium has 2"):
        assert str(StructuredJArgument.parse_from("gpu.medium", "2x3")) == "2x3"
    with pytest.raises(ValueError, match="cannot be inferred from GPU count"):
        StructuredJArgument.parse_from("cpu.small", "2")
    with pytest.raises(ValueError, match="Invalid format"):
        StructuredJArgument.parse_from("gpu.small", "1:2x3")


def test_a_role_is_named_after_its_script_or_module():
    assert [get_role_name("a/b.py", None), get_role_name(None, "a.b")] == ["b", "b"]
    with pytest.raises(ValueError, match="must be given"):
        get_role_name(None, None)

"""Hypothesis strategies for AppDefs as a document can hold them."""

from hypothesis import strategies as st

from launcher.specs import (
    NULL_RESOURCE,
    AppDef,
    BindMount,
    DeviceMount,
    JobKey,
    Launch,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
)

WORD = st.text("abcé-$<>{}/. ", max_size=6)
NAME = st.text("abc", min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORD,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=5,
)
OBJECT = st.dictionaries(WORD, JSON, max_size=2)

MOUNT = st.one_of(
    st.builds(BindMount, WORD, WORD, st.booleans()),
    st.builds(VolumeMount, WORD, WORD, st.booleans()),
    st.builds(DeviceMount, WORD, WORD, st.sampled_from(["r", "rw", "rwm"])),
)
AMOUNT = st.integers(-1, 999)
RESOURCE = st.just(NULL_RESOURCE) | st.builds(
    Resource, cpu=AMOUNT | st.integers(0, 9999).map(lambda millis: millis / 1000), gpu=AMOUNT, memMB=AMOUNT,
    capabilities=OBJECT, devices=st.dictionaries(WORD, st.integers(), max_size=2), tags=OBJECT,
)  # fmt: skip
OPTION = st.booleans() | st.integers() | WORD | st.lists(WORD, max_size=2)
ROLE = st.builds(
    Role, name=NAME, image=WORD, min_replicas=st.none() | st.integers(0, 9), base_image=st.none() | WORD,
    entrypoint=WORD, args=st.lists(WORD, max_size=3), env=st.dictionaries(NAME, WORD, max_size=2),
    num_replicas=st.integers(1, 9), max_retries=st.integers(0, 9), retry_policy=st.sampled_from(RetryPolicy),
    resource=RESOURCE, port_map=st.dictionaries(NAME, st.integers(1, 65535), max_size=2), metadata=OBJECT,
    cfg=st.dictionaries(NAME, OPTION, max_size=2),
    mounts=st.lists(MOUNT, max_size=3).map(lambda mounts: sorted(mounts, key=lambda m: m.dst_path)),
)  # fmt: skip
APP = st.builds(AppDef, name=NAME, roles=st.lists(ROLE, min_size=1, max_size=2), metadata=OBJECT)
CFG = st.dictionaries(NAME, OPTION, max_size=2)


def launch_of(app: AppDef, **fields: object) -> Launch:
    """Return a launch of `app` with unremarkable values in the fields that are not given."""
    given = {
        "key": JobKey("p", "default", "j"), "scheduler": "local_cwd", "root": "/r", "file": "f",
        "origin": "o",
    }  # fmt: skip
    return Launch(app=app, **{**given, **fields})


LAUNCH = st.builds(
    lambda app, cfg, timeout_s: launch_of(app, cfg=cfg, timeout_s=timeout_s), APP, CFG,
    st.none() | st.integers(1, 99),
)  # fmt: skip

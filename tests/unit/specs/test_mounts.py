"""Mounts in their text form."""

import pytest
from hypothesis import given, strategies as st

from launcher.errors import LauncherError
from launcher.specs import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts


def test_there_are_three_types_of_mounts_with_the_established_positions_and_defaults():
    assert [kind.name.lower() for kind in MountType] == [f"{kind}" for kind in MountType]
    assert [*MountType] == ["bind", "volume", "device"]
    assert BindMount("/a", "/b") == BindMount(src_path="/a", dst_path="/b", read_only=False)
    assert VolumeMount("v", "/b") == VolumeMount(src="v", dst_path="/b", read_only=False)
    assert DeviceMount("/a", "/b") == DeviceMount(src_path="/a", dst_path="/b", permissions="rwm")


def test_mounts_of_several_types_keep_their_order():
    text = "type=volume,src=v,dst=/v,type=bind,src=/a,dst=/b,readonly,type=device,src=/dev/fuse,perm=rw"
    assert parse_mounts(text.split(",")) == [
        VolumeMount("v", "/v"),
        BindMount("/a", "/b", read_only=True),
        DeviceMount("/dev/fuse", "/dev/fuse", "rw"),
    ]


BIND, VOLUME, DEVICE = ("type=bind src=/a", "type=volume src=v", "type=device src=/a")
READ = {
    "": None,
    "type=bind source=/a target=/b read_only": BindMount("/a", "/b", True),
    f"{BIND} destination=/b readonly=true": BindMount("/a", "/b", True),
    f"{VOLUME} dst=/b readonly": VolumeMount("v", "/b", True),
    f"{VOLUME} dst=/b read_only=1": VolumeMount("v", "/b", True),
    f"{VOLUME} dst=/b readonly=False": VolumeMount("v", "/b"),
    f"{VOLUME} dst=/b read_only=0": VolumeMount("v", "/b"),
    f"{BIND} src=/c dst=/b": BindMount("/c", "/b"),
    f"{BIND} src=/a=b dst=/b": BindMount("/a=b", "/b"),
    f"{DEVICE} perm=r": DeviceMount("/a", "/a", "r"),
    f"{DEVICE} permissions=r dst=/b": DeviceMount("/a", "/b", "r"),
}
"""Keys have other names, the last value of a repeated one counts, and a value may hold an equals sign."""


@pytest.mark.parametrize(("tokens", "mount"), READ.items())
def test_tokens_are_read_as_a_mount(tokens, mount):
    assert parse_mounts(tokens.split()) == ([mount] if mount else [])


def test_only_a_leading_tilde_of_a_bind_source_is_expanded_or_left_for_binding(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("DATA", "/never")
    assert parse_mounts(["type=bind", "src=~/data", "dst=~/data"]) == [BindMount("/home/ada/data", "~/data")]
    assert parse_mounts(["type=bind", "src=/a/~/$DATA", "dst=/b"]) == [BindMount("/a/~/$DATA", "/b")]
    left = parse_mounts(["type=bind", "src=~/data", "dst=/b"], expand_home=False)
    assert left == [BindMount("~/data", "/b")]


@pytest.mark.parametrize(("tokens", "message", "hint"), [
    ("src=/a type=bind", "`type` must be specified first", "type=bind,src=/a"),
    ("type=bind srk=/a", "unknown mount option `srk`", "did you mean `src`?"),
    ("type=bind dst=/a", "a bind mount needs `src`", "add src=…"),
    ("type=bind src=/a", "a bind mount needs `dst`", "add dst=…"),
    ("type=bind src= dst=/a", "a bind mount needs `src`", "add src=…"),
    ("type=volume dst=/a", "a volume mount needs `src`", "add src=…"),
    ("type=volume src=v", "a volume mount needs `dst`", "add dst=…"),
    ("type=device dst=/a", "a device mount needs `src`", "add src=…"),
    (f"{DEVICE} perm=rx", "permissions are made of r, w and m, got `rx`", None),
    (f"{DEVICE} perm=", "permissions are made of r, w and m, got ``", None),
    (f"{DEVICE} readonly", "a device mount has no `read_only`", "it has: dst, permissions, src, type"),
    (f"{BIND} dst=/b perm=r", "a bind mount has no `permissions`", "it has: dst, read_only, src, type"),
    (f"{BIND} dst=/b readonly=maybe", "read_only is true or false, got `maybe`", None),
    ("type=nfs", "invalid mount type `nfs`", "there are: bind, device, volume"),
    ("type=bin", "invalid mount type `bin`", "did you mean `bind`?"),
    ("type=", "invalid mount type ``", "there are: bind, device, volume"),
    ("type", "invalid mount type ``", "there are: bind, device, volume"),
])  # fmt: skip
def test_a_malformed_mount_is_a_clear_error(tokens, message, hint):
    with pytest.raises(LauncherError) as caught:
        parse_mounts(tokens.split())
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)


PATH = st.text("abc/=._- ", min_size=1).map(str.strip).filter(bool)
MOUNT = st.one_of(
    st.builds(BindMount, PATH, PATH, st.booleans()),
    st.builds(VolumeMount, PATH, PATH, st.booleans()),
    st.builds(DeviceMount, PATH, PATH, st.sampled_from(["r", "rw", "rwm", "m"])),
)


def tokens_of(mount):
    if isinstance(mount, DeviceMount):
        last = f"perm={mount.permissions}"
        return ["type=device", f"src={mount.src_path}", f"dst={mount.dst_path}", last]
    src = mount.src if isinstance(mount, VolumeMount) else mount.src_path
    kind = "volume" if isinstance(mount, VolumeMount) else "bind"
    last = f"readonly={str(mount.read_only).lower()}"
    return [f"type={kind}", f"src={src}", f"dst={mount.dst_path}", last]


@given(st.lists(MOUNT, max_size=4))
def test_mounts_are_read_back_from_their_tokens(mounts):
    assert parse_mounts([token for mount in mounts for token in tokens_of(mount)]) == mounts

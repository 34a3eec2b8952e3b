"""Mounts in their text form."""

import pytest
from hypothesis import given, strategies as st

from launcher.errors import LauncherError
from launcher.specs import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts


def test_there_are_three_types_of_mounts():
    assert {kind.name: str(kind) for kind in MountType} == {
        "BIND": "bind",
        "VOLUME": "volume",
        "DEVICE": "device",
    }


def test_mounts_are_positional_with_the_established_defaults():
    assert BindMount("/a", "/b") == BindMount(src_path="/a", dst_path="/b", read_only=False)
    assert VolumeMount("v", "/b") == VolumeMount(src="v", dst_path="/b", read_only=False)
    assert DeviceMount("/a", "/b") == DeviceMount(src_path="/a", dst_path="/b", permissions="rwm")


def test_an_empty_list_of_tokens_gives_no_mounts():
    assert parse_mounts([]) == []


def test_mounts_of_several_types_keep_their_order():
    text = "type=volume,src=v,dst=/v,type=bind,src=/a,dst=/b,readonly,type=device,src=/dev/fuse,perm=rw"
    assert parse_mounts(text.split(",")) == [
        VolumeMount("v", "/v"),
        BindMount("/a", "/b", read_only=True),
        DeviceMount("/dev/fuse", "/dev/fuse", "rw"),
    ]


@pytest.mark.parametrize("src", ["src", "source"])
@pytest.mark.parametrize("dst", ["dst", "target", "destination"])
@pytest.mark.parametrize("read_only", ["readonly", "read_only"])
def test_keys_of_a_mount_have_aliases(src, dst, read_only):
    assert parse_mounts(["type=bind", f"{src}=/a", f"{dst}=/b", read_only]) == [BindMount("/a", "/b", True)]


@pytest.mark.parametrize("key", ["perm", "permissions"])
def test_permissions_of_a_device_have_two_names(key):
    assert parse_mounts(["type=device", "src=/a", f"{key}=r"]) == [DeviceMount("/a", "/a", "r")]


@pytest.mark.parametrize(
    ("token", "read_only"),
    [
        ("readonly", True),
        ("readonly=true", True),
        ("read_only=1", True),
        ("readonly=false", False),
        ("readonly=False", False),
        ("read_only=0", False),
    ],
)
def test_the_key_readonly_of_a_mount_has_two_spellings_and_takes_booleans(token, read_only):
    assert parse_mounts(["type=volume", "src=v", "dst=/b", token])[0].read_only is read_only


def test_the_last_value_of_a_repeated_key_of_a_mount_counts():
    assert parse_mounts(["type=bind", "src=/a", "src=/c", "dst=/b"]) == [BindMount("/c", "/b")]


def test_a_value_may_hold_an_equals_sign():
    assert parse_mounts(["type=bind", "src=/a=b", "dst=/b"]) == [BindMount("/a=b", "/b")]


def test_a_device_may_have_another_path_in_the_container():
    assert parse_mounts(["type=device", "src=/dev/a", "dst=/dev/b"]) == [DeviceMount("/dev/a", "/dev/b")]


def test_only_a_leading_tilde_of_a_bind_source_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("DATA", "/never")
    assert parse_mounts(["type=bind", "src=~/data", "dst=~/data"]) == [BindMount("/home/ada/data", "~/data")]
    assert parse_mounts(["type=bind", "src=/a/~/$DATA", "dst=/b"]) == [BindMount("/a/~/$DATA", "/b")]


def test_the_home_folder_can_be_left_for_binding():
    assert parse_mounts(["type=bind", "src=~/data", "dst=/b"], expand_home=False) == [
        BindMount("~/data", "/b")
    ]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["src=/a", "type=bind"], "`type` must be specified first"),
        (["type=bind", "srk=/a"], "unknown mount option `srk`"),
        (["type=bind", "dst=/a"], "a bind mount needs `src`"),
        (["type=bind", "src=/a"], "a bind mount needs `dst`"),
        (["type=bind", "src=", "dst=/a"], "a bind mount needs `src`"),
        (["type=volume", "dst=/a"], "a volume mount needs `src`"),
        (["type=volume", "src=v"], "a volume mount needs `dst`"),
        (["type=device", "dst=/a"], "a device mount needs `src`"),
        (["type=device", "src=/a", "perm=rx"], "got `rx`"),
        (["type=device", "src=/a", "perm="], "got ``"),
        (["type=device", "src=/a", "readonly"], "a device mount has no `read_only`"),
        (["type=bind", "src=/a", "dst=/b", "perm=r"], "a bind mount has no `permissions`"),
        (["type=bind", "src=/a", "dst=/b", "readonly=maybe"], "got `maybe`"),
        (["type=nfs"], "invalid mount type `nfs`"),
        (["type="], "invalid mount type ``"),
        (["type"], "invalid mount type ``"),
    ],
)
@pytest.mark.parametrize("kind", [KeyError, ValueError, LauncherError])
def test_a_malformed_mount_is_a_clear_error(tokens, message, kind):
    with pytest.raises(kind) as caught:
        parse_mounts(tokens)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "hint"), [(["type=bind", "srk=/a"], "src"), (["type=bin"], "bind"), (["type=vol"], "volume")]
)
def test_a_misspelt_word_of_a_mount_gets_the_nearest(tokens, hint):
    with pytest.raises(LauncherError) as caught:
        parse_mounts(tokens)
    assert caught.value.hint == f"did you mean `{hint}`?"


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

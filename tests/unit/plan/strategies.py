"""Documents in normal form, for property tests."""

from typing import Any

from hypothesis import HealthCheck, settings, strategies as st

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Other tests run beside ours, so how long one takes proves nothing."""

# Few and awkward: keys that need quotes, keys that look like indexes, and collisions between documents.
words = st.sampled_from(["a", "b", "a.b", "0", "", "[x]", 'q"', "naïve", "LR", "x-y", "new\nline"])
texts = st.one_of(words, st.text(max_size=5))
references = st.sampled_from(["env:K", "env:TOKEN", "file:~/k"]).map(lambda text: {"secret": text})
scalars = st.one_of(texts, st.integers(-2, 3), st.booleans(), st.none(), st.sampled_from([0.5, 1.0]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
items = st.lists(st.sampled_from(["a", "b", "c", "-x", "1", ""]), min_size=1, max_size=8)
tables = st.dictionaries(words, values, min_size=1, max_size=3)


@st.composite
def mounts(draw: st.DrawFn) -> list[dict[str, Any]]:
    paths = st.sampled_from(["/data", "/a b", "/x[0]", 'C:"', "/", "/e.f"])
    places = draw(st.sets(paths, min_size=1, max_size=3))
    kinds = st.fixed_dictionaries(
        {"type": st.sampled_from(["bind", "volume"]), "src": texts}, optional={"read_only": st.just(True)}
    )
    return [{**draw(kinds), "dst": place} for place in sorted(places)]


def roles(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": st.just(name), "entrypoint": texts},
        optional={
            "args": items,
            "env": st.dictionaries(words, st.one_of(texts, references), min_size=1, max_size=3),
            "image": st.text(min_size=1, max_size=3),
            "num_replicas": st.integers(2, 4),
            "port_map": st.dictionaries(words, st.integers(1, 9), min_size=1, max_size=2),
            "resource": st.fixed_dictionaries(
                {"cpu_millis": st.integers(1, 3)}, optional={"gpu": st.integers(0, 2)}
            ),
            "mounts": mounts(),
            "metadata": tables,
            "retry_policy": st.sampled_from(["ROLE", "REPLICA"]),
        },
    )


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["t", "u", "v-1", "0"]), unique=True, min_size=1, max_size=3))
    rest = st.fixed_dictionaries(
        {"scheduler": st.sampled_from(["local_cwd", "slurm"])},
        optional={
            "cfg": st.dictionaries(words, st.one_of(texts, items), min_size=1),
            "timeout_s": st.integers(1, 9),
            "workspace": st.fixed_dictionaries({"path": texts, "digest": texts}),
        },
    )
    return {**draw(rest), "roles": [draw(roles(name)) for name in names]}

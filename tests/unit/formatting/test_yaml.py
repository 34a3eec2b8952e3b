import pytest

from launcher.jobfile.format import Unformattable
from tests.unit.formatting.words import block, formatted


def test_keys_get_the_order_of_the_language_and_names_keep_the_order_of_their_author():
    assert formatted("""\
        roles:
          worker: {num_replicas: 2, entrypoint: sh, env: {Z: 1, A: 2}}
          boss: {entrypoint: sh}
        timeout: 1h
        name: job
        version: 1
        """) == block("""\
        version: 1
        name: job

        roles:
          worker: {entrypoint: sh, env: {Z: 1, A: 2}, num_replicas: 2}
          boss: {entrypoint: sh}

        timeout: 1h
        """)


def test_comments_above_and_beside_a_key_move_with_the_key():
    assert formatted("""\
        version: 1
        name: job
        roles:
          main:
            # how many
            # of them
            num_replicas: 2  # two
            entrypoint: sh   # a shell
        """) == block("""\
        version: 1
        name: job

        roles:
          main:
            entrypoint: sh   # a shell
            # how many
            # of them
            num_replicas: 2  # two
        """)


def test_the_comment_at_the_top_of_a_file_stays_there():
    text = formatted(
        "# yaml-language-server: $schema=x\n# About.\nname: job\nversion: 1\nroles: {a: {entrypoint: b}}\n"
    )
    assert text.splitlines()[:3] == ["# yaml-language-server: $schema=x", "# About.", "version: 1"]


def test_a_comment_at_the_end_of_a_block_belongs_to_the_block_as_deep_as_it_stands():
    text = block("""\
        version: 1
        name: job

        roles:
          main:
            entrypoint: sh
            args:
              - a
              # of the list
            # of the role
          # of the roles
        # of the file
        """)
    assert formatted(text) == text


def test_comments_keep_their_column_where_there_is_room():
    text = "version: 1   # one\nname: job    # two\nroles: {a: {entrypoint: b}}\n"
    assert formatted(text) == text
    assert "name: 'j\"ob'  # two" in formatted(text.replace("job    ", '"j\\"ob" '))


def test_quotes_are_double_unless_that_takes_escapes():
    text = formatted("""\
        version: 1
        name: 'job'
        description: "say \\"hi\\""
        metadata: {a: 'it''s', b: "tab\\t", c: plain, 'd': 'say "hi"', e: "back\\\\slash"}
        roles: {a: {entrypoint: sh}}
        """)
    assert 'name: "job"' in text
    assert "description: 'say \"hi\"'" in text
    assert """{a: "it's", b: "tab\\t", c: plain, "d": 'say "hi"', e: 'back\\slash'}""" in text


def test_brackets_over_several_lines_are_written_out_with_their_comments():
    assert formatted("""\
        version: 1
        name: job
        roles: {
          main: {entrypoint: sh,  # the shell
            args: [-c,  # a command
              "true"]}}
        """) == block("""\
        version: 1
        name: job

        roles:
          main:
            entrypoint: sh  # the shell
            args:
              - -c  # a command
              - "true"
        """)


def test_formatting_keeps_the_text_of_text_blocks():
    text = formatted("""\
        version: 1
        name: job
        roles:
            main:
                entrypoint: sh
                args:
                - -c
                - |+  # kept to the last line
                     if true; then
                       echo "#no comment"

                     fi


                - >2
                    folded
        """)
    assert text.partition("args:\n")[2] == (
        "      - -c\n"
        "      - |+  # kept to the last line\n"
        "        if true; then\n"
        '          echo "#no comment"\n'
        "\n"
        "        fi\n"
        "\n"
        "\n"
        "      - >2\n"
        "          folded\n"
    )


def test_formatting_keeps_the_digits_of_numbers():
    text = formatted(
        "version: 1\nname: j\nroles: {a: {entrypoint: b, args: [3.10, 0x1F, 1e5, .5], env: {A: 007}}}\n"
    )
    assert "args: [3.10, 0x1F, 1e5, .5]" in text
    assert "A: 007" in text


def test_anchors_and_merge_keys_come_through():
    text = block("""\
        version: 1
        name: job
        x-common: &common
          image: a

        roles:
          main: &main
            <<: *common
            entrypoint: sh
          other:
            <<: [*main, *common]
            entrypoint: *shell
        """).replace("*shell", "env")
    assert formatted(text).replace("\n\n", "\n") == text.replace("\n\n", "\n")


def test_an_alias_is_never_moved_before_its_anchor():
    text = formatted("""\
        roles: {a: {num_replicas: &n 2, entrypoint: b}, c: {entrypoint: d}}
        version: 1
        vars: {k: {default: *n, type: int}}
        name: job
        """)
    assert text.startswith("roles: {a: {num_replicas: &n 2, entrypoint: b}")


def test_an_x_key_stays_behind_its_neighbour():
    text = formatted("version: 1\nroles: {a: {entrypoint: b}}\nx-note: 1\nname: job\n")
    assert text == "version: 1\nname: job\nroles: {a: {entrypoint: b}}\nx-note: 1\n"


def test_targets_and_defaults_are_ordered_as_the_fields_that_they_overlay():
    text = formatted("""\
        version: 1
        name: job
        targets: {dev: {roles: {a: {num_replicas: 1, image: b}}, scheduler: local_cwd}}
        defaults: {role: {num_replicas: 1, image: b}}
        """)
    assert "defaults: {role: {image: b, num_replicas: 1}}" in text
    assert "dev: {scheduler: local_cwd, roles: {a: {image: b, num_replicas: 1}}}" in text


def test_windows_line_ends_stay_and_document_marks_go():
    assert formatted("---\r\nname: a\r\nversion: 1\r\n...\r\n") == "version: 1\r\nname: a\r\n"


def test_values_that_begin_on_the_next_line_come_back_to_their_key():
    assert formatted("name:\n    job\nversion:  # one\n  1\ndescription:\n  # own\n  a\n   b\n") == block("""\
        version: 1  # one
        name: job
        # own
        description: a
          b
        """)


def test_a_dash_may_stand_alone_and_have_a_comment():
    assert formatted(
        "roles:\n a:\n  mounts:\n  -  # why\n    dst: /a\n    type: bind\n  -\n   - x\n  -\n"
    ) == block("""\
        roles:
          a:
            mounts:
              -  # why
                type: bind
                dst: /a
              - - x
              -
        """)


def test_a_key_after_a_text_block_with_kept_line_ends_adds_no_line_to_the_block():
    text = formatted("description: |+\n  a\n\nname: job\n\nversion: 1\n")
    assert text == "version: 1\nname: job\ndescription: |+\n  a\n\n"


def test_formatting_keeps_missing_values_missing():
    assert formatted("x-a: {a, b: }\nname:\n") == "x-a: {a: , b: }\nname:\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("? name\n: job\n", "`?`"),
        ("--- # about\nname: job\n", "comment"),
        ("&all\nname: job\n", "anchor"),
        ("metadata: [\n  # nothing\n]\n", "comment"),
    ],
)
def test_a_file_without_a_canonical_form_is_refused_with_the_place(text, what):
    with pytest.raises(Unformattable, match=r"^job\.launcher\.yaml:1:\d+: ") as error:
        formatted(text)
    assert what in str(error.value)

from tests.unit.formatting.words import block, formatted, toml
from tests.unit.jobfile.test_compile import FULL_TOML


def test_statements_are_ordered_within_their_table_and_tables_within_the_file():
    assert toml("""\
        name='job'
        version=1
        [roles.worker]
        num_replicas = 2
        entrypoint = 'sh'
        [vars.n]
        default = 3
        type = "int"
        [roles.boss]
        entrypoint = "sh"
        """) == block("""\
        version = 1
        name = "job"

        [vars.n]
        type = "int"
        default = 3

        [roles.worker]
        entrypoint = "sh"
        num_replicas = 2

        [roles.boss]
        entrypoint = "sh"
        """)


def test_comments_move_with_the_entry_that_they_describe():
    text = toml("""\
        #:schema x
        # About the file.
        name = "job"  # the name
        version = 1

        # about main
        [roles.main]  # beside
        # how many
        num_replicas = 2
        entrypoint = "sh"
        # the end of main

        # about vars
        [vars]
        """)
    assert text == block("""\
        #:schema x
        # About the file.
        version = 1
        name = "job"  # the name

        # about vars
        [vars]

        # about main
        [roles.main]  # beside
        entrypoint = "sh"
        # how many
        num_replicas = 2
        # the end of main
        """)


def test_quotes_are_double_unless_that_takes_escapes():
    text = toml("""\
        version = 1
        description = "say \\"hi\\" \\\\o/"
        metadata = {a='it', b = "it's", c="tab\\t", d = '''x'''}
        """)
    assert """description = 'say "hi" \\o/'""" in text
    assert """metadata = { a = "it", b = "it's", c = "tab\\t", d = '''x''' }""" in text


def test_lists_keep_their_lines_and_lists_with_comments_stay_unchanged():
    text = toml("""\
        [roles.a]
        args = ["-c",
              'a',   "b"]
        mounts = [ {dst="/a",type="volume",src="b"} ]
        x-odd = [1, # one
             2]
        """)
    assert text == block("""\
        [roles.a]
        args = [
          "-c",
          "a", "b",
        ]
        mounts = [{ type = "volume", src = "b", dst = "/a" }]
        x-odd = [1, # one
             2]
        """)


def test_numbers_dates_and_long_strings_stay_as_they_are():
    text = block('''\
        version = 1

        [roles.a]
        args = [0x1F, 1_000, 3.10, 2026-01-02]
        env.TEXT = """
          as
        it is  """
        ''')
    assert toml(text) == text


def test_items_of_lists_of_tables_keep_their_order():
    text = block("""\
        [roles.a]
        entrypoint = "sh"

        [[roles.a.mounts]]
        type = "volume"
        src = "z"
        dst = "/z"

        [[roles.a.mounts]]
        type = "volume"
        src = "a"
        dst = "/a"
        """)
    assert toml(text) == text


def test_launcher_toml_has_an_order_of_its_own():
    text = formatted("target = 'dev'\nproject = 'a'\n", name="launcher.toml")
    assert text == 'project = "a"\ntarget = "dev"\n'


def test_the_example_of_the_whole_language_is_stable_once_formatted():
    toml(FULL_TOML)

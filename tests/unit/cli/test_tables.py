from launcher.cli.render.values import table, width


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(["A", "LONG"], [["xyz", "1"], ["x", "2"]]) == "A    LONG\nxyz  1\nx    2"


def test_no_line_ends_in_blanks():
    assert table(["A", "B"], [["1", ""], ["2", "x"]]).splitlines()[1] == "1"


def test_a_column_without_a_cell_is_left_out():
    assert table(["A", "B", "C"], [["1", "", "3"]]) == "A  C\n1  3"


def test_a_table_without_rows_is_its_headings():
    assert table(["A", "B"], []) == "A  B"


def test_colours_do_not_change_the_alignment():
    rows = [[("ok", "green"), "1"], [("failed", "bold red"), "2"]]
    plain = table(["STATE", "N"], rows)
    painted = table(["STATE", "N"], rows, color=True)
    assert "\x1b[1;31mfailed\x1b[0m" in painted
    for code in ("\x1b[1;31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"):
        painted = painted.replace(code, "")
    assert painted == plain


def test_wide_characters_take_two_columns_and_combining_characters_none():
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert table(["A", "B"], [["日本", "1"], ["x", "2"]]).splitlines()[2] == "x     2"

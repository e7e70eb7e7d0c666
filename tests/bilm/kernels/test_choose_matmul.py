"""Which form multiplies by which weight: by processor, precision, size and rows."""

import pytest
import torch

from spacy_elmo.bilm.kernels.choose import (
    TABLE,
    choose_matmul,
    choose_recurrent_matmul,
    describe,
)
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.matmul import FORMS, find_form
from spacy_elmo.bilm.kernels.processor import Case, Processor

from .test_choose import ALL, FAST, GPU, INTEL, PLAIN, XEON


@pytest.mark.parametrize(
    ("processor", "settings", "rows", "expected"),
    [
        (PLAIN, {}, 64, "torch"),
        (FAST, {}, 1, "onednn"),
        (FAST, {}, 64, "onednn"),
        (FAST, {}, 2048, "onednn_in_place"),
        (FAST, {"exact": True}, 1, "onednn"),
        (FAST, {"dtype": torch.float64}, 64, "torch"),
        (FAST, {"precision": "half"}, 64, "onednn_bfloat16"),
        (FAST, {"precision": "half", "exact": True}, 1, "onednn_bfloat16"),
        (XEON, {"precision": "half"}, 64, "fbgemm_float16"),
        (FAST, {"precision": "int8"}, 64, "onednn_int8"),
        (GPU, {}, 64, "torch"),
        (GPU, {"precision": "half"}, 64, "cuda_float16"),
        (GPU, {"precision": "tf32"}, 64, "torch"),
    ],
)
def test_matmul(processor, settings, rows, expected):
    rules = choose_matmul(Case(processor, **settings))
    assert find_form(rules, rows) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"precision": "half"}, ("fbgemm_float16", "onednn_bfloat16")),
        ({"precision": "int8"}, ("fbgemm_int8", "onednn_int8")),
        ({"precision": "int8", "exact": True}, ("onednn_int8", "onednn_int8")),
        ({}, ("onednn", "onednn")),  # of a weight that is large
    ],
)
def test_recurrent_weights_of_one_row(settings, expected):
    case = Case(INTEL, **settings)
    found = choose_recurrent_matmul(case)
    assert (find_form(found, 1), find_form(found, 2)) == expected
    assert find_form(choose_matmul(case), 1) == expected[1]
    with force(matmul=expected[1]):
        assert find_form(choose_recurrent_matmul(case), 1) == expected[1]


def test_recurrent_weights_of_few_rows_without_amx():
    """In int8 FBGEMM reads fewer bytes than oneDNN pads; in half it gains nothing."""
    int8, half = (
        choose_recurrent_matmul(Case(FAST, precision)) for precision in ("int8", "half")
    )
    forms = [find_form(int8, rows) for rows in (1, 2, 3)]
    assert forms == ["fbgemm_int8", "fbgemm_int8", "onednn_int8"]
    assert find_form(half, 1) == "onednn_bfloat16"


def test_mkl_multiplies_by_small_weights_for_any_number_of_rows():
    """With AMX, of an LSTM's recurrent ones by larger ones too; not where one order of
    summation is asked for, nor in float64, nor where torch has no MKL."""
    case, sizes = Case(INTEL), (4 << 20, 8 << 20, (8 << 20) + 4)
    for rows in (1, 64, 2048):
        small, larger, large = (
            (find_form(choose_matmul(case), rows, size),
             find_form(choose_recurrent_matmul(case), rows, size))
            for size in sizes
        )  # fmt: skip
        assert small == ("mkl", "mkl")
        assert larger[0] != "mkl" and larger[1] == "mkl"
        assert "mkl" not in large
    for other in (
        Case(INTEL, exact=True),
        Case(INTEL, dtype=torch.float64),
        Case(FAST),
        Case(Processor("cpu", "amx", ALL - {"mkl"})),
    ):
        assert "mkl" not in describe(choose_recurrent_matmul(other))


def test_a_small_weight_is_copied_for_any_number_of_rows():
    for exact in (False, True):
        rules = choose_matmul(Case(FAST, exact=exact))
        assert find_form(rules, 2048, n_bytes=4 << 20) == "onednn"
        assert find_form(rules, 2048, n_bytes=(4 << 20) + 4) == "onednn_in_place"


@pytest.mark.parametrize("instructions", TABLE)
@pytest.mark.parametrize("precision", ["float32", "half", "int8"])
@pytest.mark.parametrize("hidden", [*FORMS, None])
def test_every_row_has_a_form_of_the_precision_or_says_so(
    instructions, precision, hidden
):
    """Also without one of the forms, for any number of rows, and exactly."""
    for exact in (False, True):
        case = Case(Processor("cpu", instructions, ALL - {hidden}), precision, exact)
        try:
            rules = choose_matmul(case)
        except ValueError:
            if precision != "float32":
                continue
            raise
        for rows in (1, 4, 128, 1 << 20):
            form = find_form(rules, rows)
            assert form != hidden or hidden.startswith("torch")
            assert exact is False or find_form(rules, 1) in {form, "onednn"}

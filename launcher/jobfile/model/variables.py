"""The models of variables: one for each type."""

from functools import cache
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter

from launcher.jobfile.model.base import VAR_NAME, EnvName, Model, Traits, kind_tag, without_plugins

NEVER = Traits("never")


class _VarBase(Model):
    help: Annotated[str, Traits("never", after="choices")] = Field(
        "", description="What the variable is for.", examples=["passes over the data"]
    )
    from_env: Annotated[EnvName | None, Traits("never", after="type")] = Field(
        None,
        description="Environment variable that gives the value where --var does not.",
        examples=["HF_HOME"],
    )


class IntVar(_VarBase):
    """A variable that is a whole number."""

    type: Annotated[Literal["int"], NEVER] = Field(description="The type of the value.", examples=["int"])
    default: Annotated[int | None, NEVER] = Field(
        None, description="The value where none is given.", examples=[3]
    )
    min: Annotated[int | None, NEVER] = Field(None, description="The smallest value allowed.", examples=[1])
    max: Annotated[int | None, NEVER] = Field(None, description="The largest value allowed.", examples=[100])
    choices: Annotated[list[int] | None, NEVER] = Field(
        None, description="The values allowed.", examples=[[1, 2, 4]]
    )


class FloatVar(_VarBase):
    """A variable that is a number."""

    type: Annotated[Literal["float"], NEVER] = Field(description="The type of the value.", examples=["float"])
    default: Annotated[float | None, NEVER] = Field(
        None, description="The value where none is given.", examples=[0.1]
    )
    min: Annotated[float | None, NEVER] = Field(
        None, description="The smallest value allowed.", examples=[0.0]
    )
    max: Annotated[float | None, NEVER] = Field(
        None, description="The largest value allowed.", examples=[1.0]
    )
    choices: Annotated[list[float] | None, NEVER] = Field(
        None, description="The values allowed.", examples=[[0.1, 0.01]]
    )


class StrVar(_VarBase):
    """A variable that is text."""

    type: Annotated[Literal["str"], NEVER] = Field(description="The type of the value.", examples=["str"])
    default: Annotated[str | None, NEVER] = Field(
        None, description="The value where none is given.", examples=["fp32"]
    )
    choices: Annotated[list[str] | None, NEVER] = Field(
        None, description="The values allowed.", examples=[["fp32", "bf16"]]
    )


class BoolVar(_VarBase):
    """A variable that is true or false."""

    type: Annotated[Literal["bool"], NEVER] = Field(description="The type of the value.", examples=["bool"])
    default: Annotated[bool | None, NEVER] = Field(
        None, description="The value where none is given.", examples=[False]
    )


Var = Annotated[
    Annotated[IntVar, Tag("<int>")]
    | Annotated[FloatVar, Tag("<float>")]
    | Annotated[StrVar, Tag("<str>")]
    | Annotated[BoolVar, Tag("<bool>")],
    Discriminator(kind_tag),
]
Vars = dict[Annotated[str, Field(pattern=VAR_NAME)], Var]


@cache
def vars_adapter() -> TypeAdapter[dict[str, IntVar | FloatVar | StrVar | BoolVar]]:
    """Validates the variables of a file. Made for the first file that has any: it takes milliseconds."""
    with without_plugins():
        return TypeAdapter(Vars)

"""Griffe extension that corrects what static analysis gets wrong about Equinox modules and jaxtyping."""

from typing import Any

import griffe

ROOTS = {"equinox.Module", "typing.NamedTuple"}


class Fields(griffe.Extension):
    """Adds constructors to modules and named tuples, from their fields, and quotes one-letter shapes."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Adds an `__init__` to every record that has none."""
        for class_ in _classes(pkg):
            if _is_record(class_) and "__init__" not in class_.members:
                class_.set_member("__init__", _init(class_))

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Quotes the shape in its annotation."""
        _quote(attr.annotation)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Quotes the shapes of arguments and result."""
        for annotation in (func.returns, *(p.annotation for p in func.parameters)):
            _quote(annotation)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    own = [m for m in module.members.values() if not m.is_alias]
    found = [m for m in own if isinstance(m, griffe.Class)]
    return found + [c for m in own if isinstance(m, griffe.Module) for c in _classes(m)]


def _family(class_: griffe.Class) -> list[griffe.Class]:
    """Returns its parents inside the package, then the class itself."""
    return [*reversed(class_.mro()), class_]


def _is_record(class_: griffe.Class) -> bool:
    bases = {getattr(b, "canonical_path", str(b)) for c in _family(class_) for b in c.bases}
    return bool(bases & ROOTS)


def _init(class_: griffe.Class) -> griffe.Function:
    fields = {}
    for owner in _family(class_):
        for member in owner.members.values():
            if isinstance(member, griffe.Attribute) and member.annotation and "property" not in member.labels:
                default = _default(member.value)
                kind = griffe.ParameterKind.positional_or_keyword
                fields[member.name] = griffe.Parameter(
                    member.name, annotation=member.annotation, kind=kind, default=default
                )
    itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    parameters = griffe.Parameters(itself, *fields.values())
    return griffe.Function("__init__", parent=class_, parameters=parameters, returns="None")


def _default(value: Any) -> Any:
    """Returns the default of a plain field, of `eqx.field(default=...)` or of a `default_factory`."""
    if not isinstance(value, griffe.ExprCall):
        return value
    options = {a.name: a.value for a in value.arguments if isinstance(a, griffe.ExprKeyword)}
    if "default_factory" in options:
        return griffe.ExprCall(options["default_factory"], [])
    return options.get("default")


def _quote(annotation: Any) -> None:
    """Restores the quotes of shapes: Griffe takes the "D" of Float[Array, "D"] for a forward reference."""
    if not isinstance(annotation, griffe.Expr):
        return
    if isinstance(annotation, griffe.ExprSubscript) and annotation.canonical_path.startswith("jaxtyping."):
        elements = getattr(annotation.slice, "elements", None)
        if elements:
            shape = str(elements[-1]).strip("'\"").replace("* ", "*")
            elements[-1] = f'"{shape}"'
    for part in annotation.iterate(flat=False):
        if part is not annotation:
            _quote(part)

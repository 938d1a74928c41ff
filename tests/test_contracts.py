"""Every class is abstract or final, and no concrete method is overridden: a method is implemented once."""

import abc
import importlib
import inspect
import pkgutil
from typing import Protocol

import equinox as eqx
import pytest

import uivi

TRITON = "triton_"
"""These modules need Triton and hold no classes."""


def all_modules():
    for found in pkgutil.walk_packages(uivi.__path__, "uivi."):
        if TRITON not in found.name and not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def all_classes() -> list[type]:
    """The classes that the package defines, protocols aside."""
    found = {
        x
        for module in all_modules()
        for x in vars(module).values()
        if inspect.isclass(x) and x.__module__ == module.__name__ and Protocol not in x.__bases__
    }
    return sorted(found, key=lambda x: (x.__module__, x.__name__))


CLASSES = all_classes()


def is_abstract(cls: type) -> bool:
    """Whether a class cannot be instantiated: a method or a field is declared and not given."""
    names = ("__abstractmethods__", "__abstractvars__", "__abstractclassvars__")
    return any(getattr(cls, name, ()) for name in names)


def is_named_abstract(cls: type) -> bool:
    return cls.__name__.lstrip("_").startswith("Abstract")


def subclassed_although_final(classes: list[type]) -> list[str]:
    """Concrete classes with subclasses among `classes`."""
    bases = {base for cls in classes for base in cls.__mro__[1:]}
    return [cls.__name__ for cls in classes if cls in bases and not is_named_abstract(cls)]


def methods_of(cls: type) -> dict[str, object]:
    """What a class itself defines and its users call; constructors and generated methods aside."""
    kinds = (property, classmethod, staticmethod)
    is_method = lambda x: inspect.isroutine(x) or isinstance(x, kinds)
    is_plain = lambda name: name == "__call__" or not name.startswith("__")
    return {name: x for name, x in vars(cls).items() if is_plain(name) and is_method(x)}


def overridden(cls: type, own: list[type]) -> list[str]:
    """Methods of `cls` that override a concrete one of a base among `own`."""
    inherited = {}
    for base in cls.__mro__[1:]:
        if base in own:
            concrete = {n for n, x in methods_of(base).items() if not getattr(x, "__isabstractmethod__", False)}
            inherited |= dict.fromkeys(concrete, base.__name__)
    return [
        f"{cls.__name__}.{name} overrides {inherited[name]}'s" for name in methods_of(cls) if name in inherited
    ]


def test_there_are_classes_of_both_kinds():
    assert sum(map(is_named_abstract, CLASSES)) > 20
    assert len(CLASSES) > 100


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_a_class_is_abstract_if_and_only_if_its_name_says_so(cls):
    assert is_abstract(cls) == is_named_abstract(cls)


def test_concrete_classes_are_final():
    assert not subclassed_although_final(CLASSES)


def test_no_concrete_method_is_overridden():
    assert not [words for cls in CLASSES for words in overridden(cls, CLASSES)]


class AbstractShape(eqx.Module):
    @abc.abstractmethod
    def area(self): ...

    def twice(self):
        return 2 * self.area()


class Square(AbstractShape):
    def area(self):
        return 1.0


class Odd(AbstractShape):
    def area(self):
        return 1.0

    def twice(self):
        return 3.0


class Smaller(Square):
    pass


class AbstractButWhole(eqx.Module):
    pass


def test_breaches_are_noticed():
    """The control: each rule fails on a class that breaks it."""
    own = [AbstractShape, Square, Odd]
    assert is_abstract(AbstractShape)
    assert not is_abstract(Square)
    assert not overridden(Square, own)
    assert overridden(Odd, own) == ["Odd.twice overrides AbstractShape's"]
    assert not subclassed_although_final(own)
    assert subclassed_although_final([*own, Smaller]) == ["Square"]
    assert is_abstract(AbstractButWhole) != is_named_abstract(AbstractButWhole)
    with pytest.raises(TypeError, match="abstract"):
        AbstractShape()

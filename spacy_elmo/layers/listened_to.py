"""Who listens to a component: the bookkeeping that `spacy.ty.ListenedToComponent` asks
for."""

from typing import Any

from thinc.api import Model

from .listener import ElmoListener


class ListenedTo:
    """For a component that is an `Upstream` (see listener.py)."""

    name: str

    @property
    def listener_map(self) -> dict[str, list[Model]]:
        """Listeners of each component that has some. spaCy sets an empty one and has
        them found anew, from here to the end, whenever the pipeline changes."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, found: dict[str, list[Model]]) -> None:
        self._listener_map = found
        self._is_hidden = False  # from "*" listeners, by another that is nearer to them

    @property
    def listeners(self) -> list[Model]:
        return [model for models in self.listener_map.values() for model in models]

    @property
    def listening_components(self) -> list[str]:
        return list(self.listener_map)

    def add_listener(self, listener: Model, component_name: str) -> None:
        """Raises ValueError [EL054, EL060] if the listener does not fit."""
        previous = getattr(listener, "upstream", None)
        if previous is not None and previous is not self:
            previous.forget_listener(listener)
        listener.connect(self)  # type: ignore[attr-defined]
        models = self.listener_map.setdefault(component_name, [])
        if listener not in models:
            models.append(listener)

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        models = self.listener_map.get(component_name, [])
        if listener not in models:
            return False
        # Another list: spaCy goes through this one while it replaces listeners.
        rest = [model for model in models if model is not listener]
        self.listener_map[component_name] = rest
        if not rest:
            del self.listener_map[component_name]
        return True

    def forget_listener(self, listener: Model) -> None:
        """Remove a listener, which listens to another component now."""
        for name in self.listening_components:
            self.remove_listener(listener, name)

    def find_listeners(self, component: Any) -> None:
        if isinstance(component, ListenedTo):
            self._is_hidden = True
        names = (self.name,) if self._is_hidden else ("*", self.name)
        if isinstance(getattr(component, "model", None), Model):
            for node in component.model.walk(order="dfs_pre"):
                if isinstance(node, ElmoListener) and node.upstream_name in names:
                    self.add_listener(node, component.name)

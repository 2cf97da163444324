"""Applications of the user's own: finds the ones that this host offers. A run refers to such an application by its
name.

The commands stay in the TOML files of the operator's folder. A scenario gets only the name and the number of members.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.model.application import Application
from delivery_verifier.model.inputs import BadInput, choice
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.user_application import UserApplication, read_folder

LISTED = "`kdv list applications` describes them"


def known() -> dict[str, Application]:
    """Returns all applications by name: first the applications of the catalogue, then the user's own. Leaves out user
    applications whose files cannot be read."""
    own = {name: _as_data(name, each) for name, each in _all().items() if isinstance(each, UserApplication)}
    return {**catalogue.APPLICATIONS, **own}


def unreadable() -> dict[str, str]:
    """Maps the name of each user application whose file cannot be read to a text that says what is wrong."""
    return {name: each for name, each in _all().items() if isinstance(each, str)}


def check_name(field: str, value: object) -> str:
    """Returns `value` if it is the name of an application.

    Raises BadInput for anything else. If the value is a command, the message says where commands belong. If the file of
    the user application with this name cannot be read, the message says what is wrong.
    """
    names = known()
    if isinstance(value, str) and value not in names:
        if (why := unreadable().get(value)) is not None:
            raise BadInput(f"{field} is {value!r}, which cannot be read: {why}")
        if set(value) & set(" \t\n/\\=|;&$<>'\"(){}"):
            raise BadInput(  # the message does not repeat the value, which may hold a password
                f"{field} is no name; allowed: {', '.join(names)}; a command is never taken from here: the operator of "
                f"the host writes it to {folders.applications_dir()}/NAME.toml, and {field} is NAME; {LISTED}"
            )
    return choice(field, value, names, LISTED)


def connections_of(scenario: Scenario) -> set[str]:
    """Returns the ids of the Airflow connections that the user applications of `scenario` need."""
    own = [_all().get(arm.application.name) for arm in scenario.loaded if arm.application]
    return {name for each in own if isinstance(each, UserApplication) for name in each.connections.values()}


def listing() -> Iterator[str]:
    """Yields two lines for each user application. The first has the name and the summary. The second has the file or,
    if it cannot be read, what is wrong with it."""
    folder = folders.applications_dir()
    for name, each in _all().items():
        file = folder / f"{name}.toml"
        if isinstance(each, str):
            yield f"{name:<14} cannot be read: {each}"
            continue
        yield f"{name:<14} {each.summary}"
        members = f"{each.members} member{'s' if each.members > 1 else ''}"
        yield f"{'':<14} user application, judged by the claim alone; {members}, effects in {each.effects.kind}; {file}"


def _all() -> dict[str, UserApplication | str]:
    folder = folders.applications_dir()
    taken = "its name is taken by an application of the catalogue; rename the file"
    return {
        name: f"{folder / name}.toml: {taken}" if name in catalogue.APPLICATIONS else each
        for name, each in read_folder(folder).items()
    }


def _as_data(name: str, own: UserApplication) -> Application:
    return Application(
        name=name,
        summary=own.summary,
        discipline="own",
        consumer={},
        members=own.members,
        effects=own.effects.kind,
    )

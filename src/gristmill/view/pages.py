"""Every page by its name: what is asked for is one of these, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from gristmill.core.errors import ConfigError, GristmillError
from gristmill.report.page import notes
from gristmill.view.document_page import document_page
from gristmill.view.documents import browse, document_by_id
from gristmill.view.dropped_page import dropped_documents_page
from gristmill.view.jobs import Jobs
from gristmill.view.overview import overview
from gristmill.view.parts import Answer, Params, whole
from gristmill.view.search_page import field_page, search_page
from gristmill.view.step_page import row_page, step_page
from gristmill.view.subject import Subject


class Pages:
    """The pages of what is looked at."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.jobs = subject, Jobs()
        shown: dict[str, Callable[[Subject, Params], str]] = {
            "": overview, "docs": browse, "doc": document_page, "dropped": dropped_documents_page, "step": step_page,
            "row": row_page,
        }  # fmt: skip
        self._pages: dict[str, Callable[[Params], Answer]] = {
            name: lambda params, made=made: Answer(made(subject, params))  # type: ignore[misc]
            for name, made in shown.items()
        }
        self._pages["find"] = lambda params: document_by_id(subject, params)
        self._pages["search"] = lambda params: search_page(self.jobs, subject, params)
        self._pages["field"] = lambda params: field_page(self.jobs, subject, params)

    def answer(self, name: str, params: Params) -> Answer:
        """The page of that name; what cannot be shown is said on one."""
        if name not in self._pages:
            return self._said("There is no such page here.", 404)
        try:
            return self._pages[name](params)
        except ConfigError as error:
            return self._said(str(error), 404)
        except GristmillError as error:
            return self._said(str(error), 500)

    def _said(self, sentence: str, status: int) -> Answer:
        return Answer(whole(self.subject, "Not shown", notes([sentence])), status=status)

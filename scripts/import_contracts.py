"""A contract for import-linter: no module of a package imports itself by way of others, for types or at run time."""

import grimp
from importlinter import Contract, ContractCheck, fields, output


class AcyclicModules(Contract):
    """Modules of the package, in all its folders, can be put in an order in which each imports only earlier ones."""

    type_name = "acyclic_modules"

    package = fields.StringField()

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Take away modules that import none of those that are left, until there is no such module."""
        package = str(self.package)
        left = {
            module: {found for found in graph.find_modules_directly_imported_by(module) if found.startswith(package)}
            for module in graph.modules
            if module.startswith(package)
        }
        while free := {module for module, imported in left.items() if not imported & left.keys()}:
            left = {module: imported for module, imported in left.items() if module not in free}
        return ContractCheck(kept=not left, metadata={"left": {module: left[module] & left.keys() for module in left}})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the modules in cycles and those above them, with what they import of each other."""
        for module, imported in sorted(check.metadata["left"].items()):
            output.print_error(f"{module} -> {', '.join(sorted(imported))}", bold=False)

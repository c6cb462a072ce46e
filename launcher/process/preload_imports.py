"""Finds the modules that a program imports. Precedes preload.py in the file of the interpreter."""

import os
import sys

MODULES_MAX = 256
# Functions that affect following imports.
CHANGES_OF_IMPORTS = {"putenv", "unsetenv", "addsitedir", "chdir", "patch_all"}
CHANGES_OF_DICT = {"update", "setdefault", "pop", "popitem", "clear"}


class ImportFinder:
    """Finds the imports at the beginning of a program and of its own modules, in the order of their
    execution, as "module" or "module:name,name".

    Ignores imports in functions and conditions. Ends at a statement that changes an object, such as
    the environment, sys.path or a module, since it may affect the following imports.
    """

    def __init__(self, program, is_module):
        import ast
        import importlib.util

        self.ast, self.find_spec = ast, importlib.util.find_spec
        self.found, self.visited = [], set()
        self.first_place = ""  # file and line of the statement at which the search has ended early
        self.end = ""  # the same, if imports follow
        self.environments = {"environ"}
        self.folder = first_folder(program, is_module)
        package, path = "", program
        if is_module:
            package = program.rpartition(".")[0]
            path = self.own_file(program)
            if path is None:
                spec = self.find_spec(program)
                path = (spec.origin if spec is not None else None) or ""
        if is_module and os.path.basename(path) == "__init__.py":
            package, path = program, os.path.join(os.path.dirname(path), "__main__.py")
        elif os.path.isdir(path):
            path = os.path.join(path, "__main__.py")
        is_archive = path == program and is_archive_or_folder(program)
        if os.path.isfile(path) and not is_archive:
            self.visit_file(path, package)

    def own_file(self, name):
        """Returns the file of a module in the program's folder."""
        if self.folder is None:
            return None
        base = os.path.join(self.folder, *name.split("."))
        files = (os.path.join(base, "__init__.py"), base + ".py")
        return next((path for path in files if os.path.isfile(path)), None)

    def is_own(self, name):
        """Installed packages precede folders without __init__.py."""
        if self.own_file(name) is not None:
            return True
        is_folder = self.folder is not None and os.path.isdir(os.path.join(self.folder, name))
        return is_folder and name not in sys.modules and self.find_spec(name) is None

    # The following functions return False if further imports must not be found.

    def visit_file(self, path, package):
        if path in self.visited:
            return True
        self.visited.add(path)
        with open(path, "rb") as file:
            text = file.read()
        try:
            statements = self.ast.parse(text, path).body
        except (SyntaxError, ValueError):
            return True  # the program may handle the error
        for index, node in enumerate(statements):
            if not self.visit(node, package):
                self.note_end(node, path, statements[index + 1 :])
                return False
        return True

    def note_end(self, node, path, following):
        """Called for the file of the statement first, then for the files that import it."""
        self.first_place = self.first_place or f"{path}:{node.lineno}"
        has_names_left = isinstance(node, self.ast.Import) and len(node.names) > 1
        rest = (node.body if isinstance(node, self.ast.Try) else []) + following
        if has_names_left or self.has_imports(rest):
            self.end = self.first_place

    def has_imports(self, nodes):
        ast = self.ast
        return any(
            isinstance(node, (ast.Import, ast.ImportFrom))
            or (isinstance(node, ast.Try) and self.has_imports(node.body))
            for node in nodes
        )

    def visit(self, node, package):
        if isinstance(node, self.ast.Import):
            return all(self.add(alias.name, "") for alias in node.names)
        if isinstance(node, self.ast.ImportFrom):
            name = node.module or ""
            if node.level > 0:
                parents = package.split(".") if package else []
                own = parents[: len(parents) - node.level + 1]
                name = ".".join(own + ([name] if name else []))
            names = ",".join(alias.name for alias in node.names if alias.name != "*")
            for alias in node.names:
                if name == "os" and alias.name == "environ" and alias.asname:
                    self.environments.add(alias.asname)
            return name == "__future__" or not name or self.add(name, names)
        if isinstance(node, self.ast.Try):
            return all(self.visit(child, package) for child in node.body)
        return not self.changes_imports(node)

    def add(self, name, names):
        top = name.split(".")[0]
        if self.is_own(top):
            for each in [name] + [f"{name}.{one}" for one in names.split(",") if one]:
                path = self.own_file(each)
                is_package = path is not None and os.path.basename(path) == "__init__.py"
                package = each if is_package else each.rpartition(".")[0]
                if path is not None and not self.visit_file(path, package):
                    return False
            return True
        if top not in sys.builtin_module_names:
            self.found.append(f"{name}:{names}" if names else name)
        return len(self.found) < MODULES_MAX

    def changes_imports(self, node):
        ast = self.ast
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False  # not executed
        if is_named(node, *CHANGES_OF_IMPORTS):
            return True
        is_part = isinstance(node, (ast.Attribute, ast.Subscript))
        if is_part and not isinstance(node.ctx, ast.Load):
            return True
        if is_named(node, *self.environments) and not isinstance(node.ctx, ast.Load):
            return True
        value = getattr(node, "value", None)
        if is_named(node, "path", "meta_path", "path_hooks") and is_named(value, "sys"):
            return True
        is_call = isinstance(node, ast.Attribute) and node.attr in CHANGES_OF_DICT
        if is_call and is_named(value, *self.environments):
            return True
        return any(self.changes_imports(child) for child in ast.iter_child_nodes(node))


def is_named(node, *names):
    return getattr(node, "attr", getattr(node, "id", None)) in names


def first_folder(program, is_module):
    """Returns the folder or archive that the interpreter will put before sys.path; None: none."""
    if not is_module and is_archive_or_folder(program):
        return program if sys.version_info < (3, 9) else os.path.abspath(program)
    if getattr(sys.flags, "safe_path", False):
        return None
    return os.getcwd() if is_module else os.path.dirname(os.path.realpath(program))


def is_archive_or_folder(program):
    import zipimport

    if os.path.isdir(program):
        return True
    try:
        zipimport.zipimporter(program)
    except ImportError:
        return False
    return True

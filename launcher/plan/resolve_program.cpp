#include "launcher/plan/resolve_program.hpp"

#include "rendezvous/base/text.hpp"

#include <optional>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> path_folders(const HostFacts& facts) {
  std::vector<fs::path> folders;
  for (const auto& folder : split(facts.environment("PATH").value_or("/usr/bin:/bin"), ':')) {
    // An empty entry is the working directory, as in shells.
    folders.push_back(folder.empty() ? facts.working_directory : fs::path(folder));
  }
  return folders;
}

std::optional<fs::path> find_in(const std::vector<fs::path>& folders, const std::string& name,
                                const HostFacts& facts) {
  for (const auto& folder : folders) {
    if (facts.file_kind(folder / name) == FileKind::executable) return folder / name;
  }
  return std::nullopt;
}

/// Returns why a file cannot be executed; empty if it can.
std::string obstacle(FileKind kind, const std::string& name, bool is_script_otherwise = false) {
  switch (kind) {
    case FileKind::executable:
      return {};
    case FileKind::missing:
      return "no such file";
    case FileKind::folder:
      return "is a folder, not a program";
    case FileKind::not_executable:
      return "is not executable (chmod +x " + name +
             (is_script_otherwise ? "; without --no_python Python runs it)"
                                  : "; Python scripts end in .py)");
  }
  return {};
}

std::variant<std::vector<std::string>, std::string> find_executable(const LaunchOptions& options,
                                                                    const HostFacts& facts) {
  const auto& name = options.program;
  // True if --no_python was given; otherwise this code would not be reached.
  const bool is_script_otherwise = options.is_python_by_default || name.ends_with(".py");
  if (name.find('/') != std::string::npos) {
    const auto kind = facts.file_kind(facts.working_directory / name);
    const auto problem = obstacle(kind, name, is_script_otherwise);
    if (!problem.empty()) return name + ": " + problem;
    return std::vector<std::string>{name};
  }
  // Does not search the working directory, where other users may create files.
  auto folders = path_folders(facts);
  folders.push_back(facts.program_directory);
  if (const auto found = find_in(folders, name, facts)) {
    return std::vector<std::string>{found->string()};
  }
  std::string problem = name + ": not found in PATH, nor in the folder of ddprun (" +
                        facts.program_directory.string() + ")";
  const auto here = facts.file_kind(facts.working_directory / name);
  if (here == FileKind::executable) problem += "; did you mean ./" + name + "?";
  if (here == FileKind::not_executable || here == FileKind::folder) {
    problem += "; ./" + name + " " + obstacle(here, name, is_script_otherwise);
  }
  if (facts.file_kind(facts.working_directory / (name + ".py")) != FileKind::missing) {
    problem += "; did you mean " + name + ".py?";
  }
  return problem;
}

/// Returns the interpreter of the Python environment (venv or conda) in whose bin folder ddprun, or
/// a link to it, was called. As for scripts that pip installs there, the environment need not be
/// activated.
std::optional<fs::path> environment_python(const HostFacts& facts) {
  const auto root = facts.called_in.parent_path();
  const bool is_environment = facts.file_kind(root / "pyvenv.cfg") != FileKind::missing ||
                              facts.file_kind(root / "conda-meta") == FileKind::folder;
  if (!is_environment) return std::nullopt;
  return find_in({facts.called_in}, "python3", facts);
}

std::variant<std::vector<std::string>, std::string> find_python(const HostFacts& facts) {
  const auto chosen = facts.environment("PYTHON_EXEC").value_or("");
  if (chosen.empty()) {
    if (const auto own = environment_python(facts)) return std::vector<std::string>{own->string()};
  }
  const auto name = chosen.empty() ? std::string("python3") : chosen;
  const std::string where = chosen.empty() ? "" : " (PYTHON_EXEC)";
  if (name.find('/') != std::string::npos) {
    const auto problem = obstacle(facts.file_kind(facts.working_directory / name), name);
    if (!problem.empty()) return name + where + ": " + problem;
    return std::vector<std::string>{name};
  }
  if (const auto found = find_in(path_folders(facts), name, facts)) {
    return std::vector<std::string>{found->string()};
  }
  return name + where + ": not found in PATH; set PYTHON_EXEC to the interpreter to use";
}

bool is_script(const LaunchOptions& options) {
  if (options.run_path) return true;
  return !options.no_python && !options.module &&
         (options.is_python_by_default || options.program.ends_with(".py"));
}

/// Python also runs a folder with a main module.
std::string script_problem(const std::string& name, const HostFacts& facts) {
  const auto path = facts.working_directory / name;
  switch (facts.file_kind(path)) {
    case FileKind::missing:
      return name + ": no such file in " + facts.working_directory.string();
    case FileKind::folder:
      if (facts.file_kind(path / "__main__.py") != FileKind::missing) return {};
      return name + ": is a folder without a __main__.py, not a script";
    case FileKind::not_executable:
    case FileKind::executable:
      return {};
  }
  return {};
}

}  // namespace

std::string interpreter_origin(const LaunchOptions& options, const HostFacts& facts) {
  if (!options.module && !is_script(options)) return "";
  if (!facts.environment("PYTHON_EXEC").value_or("").empty()) return "named by PYTHON_EXEC";
  if (environment_python(facts)) return "in the folder from which ddprun was called";
  return "the first python3 in PATH";
}

bool is_python(const std::vector<std::string>& arguments) {
  return !arguments.empty() &&
         fs::path(arguments.front()).filename().string().starts_with("python");
}

std::variant<fs::path, std::string> find_preflight(const HostFacts& facts) {
  // Beside ddprun in a build folder; in an installation, in a folder that is not in PATH.
  const auto& own = facts.program_directory;
  const std::vector<fs::path> folders = {own, own.parent_path() / "libexec" / "ddprun"};
  if (auto found = find_in(folders, "ddprun-preflight", facts)) return *std::move(found);
  return "--preflight: ddprun-preflight, which comes with ddprun, is neither in " +
         folders[0].string() + " nor in " + folders[1].string();
}

std::string find_tool(const std::string& name, const HostFacts& facts,
                      const fs::path& other_folder) {
  auto folders = path_folders(facts);
  if (!other_folder.empty()) folders.push_back(other_folder);
  return find_in(folders, name, facts).value_or("").string();
}

std::variant<std::vector<std::string>, std::string> resolve_program(const LaunchOptions& options,
                                                                    const HostFacts& facts) {
  const auto& name = options.program;
  if (name.empty()) return std::string("the name of the program is empty");
  const bool runs_script = is_script(options);
  if (!options.module && !runs_script) return find_executable(options, facts);
  if (runs_script) {
    if (auto problem = script_problem(name, facts); !problem.empty()) return problem;
  }
  auto command = find_python(facts);
  if (auto* words = std::get_if<std::vector<std::string>>(&command)) {
    // Unbuffered, so that output before a crash is not lost.
    words->emplace_back("-u");
    if (!runs_script) words->emplace_back("-m");
    words->push_back(name);
  }
  return command;
}

}  // namespace ddprun

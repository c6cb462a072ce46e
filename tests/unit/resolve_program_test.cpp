#include "launcher/plan/resolve_program.hpp"

#include "launcher/plan/macros.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

namespace resolve_program_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

constexpr auto kRuns = FileKind::executable;
constexpr auto kText = FileKind::not_executable;
constexpr auto kFolder = FileKind::folder;

/// The command as words with spaces between them, or "? " and the problem.
std::string resolved(const Strings& arguments, const Files& files = {},
                     const Variables& variables = {}) {
  const auto result = resolve_program(options_of(arguments), host(files, variables));
  if (const auto* problem = std::get_if<std::string>(&result)) return "? " + *problem;
  std::string text;
  for (const auto& word : std::get<Strings>(result)) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

TEST_SUITE("resolve program") {
  TEST_CASE("program: a script runs under unbuffered python3 by its given name") {
    CHECK(resolved({"train.py"}, {{"/home/me/train.py", kText}}) == "/usr/bin/python3 -u train.py");
    CHECK(resolved({"sub/train.py"}, {{"/home/me/sub/train.py", kRuns}}) ==
          "/usr/bin/python3 -u sub/train.py");
    CHECK(resolved({"/abs/train.py"}, {{"/abs/train.py", kText}}) ==
          "/usr/bin/python3 -u /abs/train.py");
  }

  TEST_CASE("program: a module runs under python3 even if named like a script") {
    CHECK(resolved({"-m", "pkg.train"}) == "/usr/bin/python3 -u -m pkg.train");
    CHECK(resolved({"-m", "train.py"}) == "/usr/bin/python3 -u -m train.py");
  }

  TEST_CASE("program: PYTHON_EXEC selects the interpreter by path or name") {
    const Files files = {{"/home/me/train.py", kText},
                         {"/venv/bin/python", kRuns},
                         {"/usr/local/bin/python3.9", kRuns}};
    CHECK(resolved({"train.py"}, files, {{"PYTHON_EXEC", "/venv/bin/python"}}) ==
          "/venv/bin/python -u train.py");
    CHECK(resolved({"train.py"}, files, {{"PYTHON_EXEC", "python3.9"}}) ==
          "/usr/local/bin/python3.9 -u train.py");
    CHECK(resolved({"train.py"}, files, {{"PYTHON_EXEC", ""}}) == "/usr/bin/python3 -u train.py");
    CHECK(resolved({"train.py"}, files, {{"PYTHON_EXEC", "/no/python"}}) ==
          "? /no/python (PYTHON_EXEC): no such file");
    CHECK(contains(resolved({"train.py"}, files, {{"PYTHON_EXEC", "pyhton"}}),
                   "pyhton (PYTHON_EXEC): not found in PATH"));
  }

  TEST_CASE("program: interpreter_origin() names the source of the interpreter") {
    const auto origin = [](const Strings& arguments, const Variables& variables) {
      return interpreter_origin(options_of(arguments), host({}, variables));
    };
    CHECK(origin({"train.py"}, {}) == "the first python3 in PATH");
    CHECK(origin({"-m", "train"}, {}) == "the first python3 in PATH");
    CHECK(origin({"train.py"}, {{"PYTHON_EXEC", "/venv/bin/python"}}) == "named by PYTHON_EXEC");
    CHECK(origin({"--no_python", "python3", "train.py"}, {}).empty());
    auto facts = host({{"/venv/pyvenv.cfg", kText}, {"/venv/bin/python3", kRuns}});
    facts.called_in = "/venv/bin";
    CHECK(interpreter_origin(options_of({"train.py"}), facts) ==
          "in the folder from which ddprun was called");
  }

  TEST_CASE("program: ddprun in a virtual environment uses the environment's interpreter") {
    const auto python = [](const std::string& called_in, const Files& files) {
      auto facts = host(files);
      facts.called_in = called_in;
      const auto result = resolve_program(options_of({"-m", "train"}), facts);
      return std::get<Strings>(result).front();
    };
    const Files files = {{"/env/bin/python3", kRuns},   {"/env/pyvenv.cfg", kText},
                         {"/conda/bin/python3", kRuns}, {"/conda/conda-meta", kFolder},
                         {"/opt/bin/python3", kRuns},   {"/odd/pyvenv.cfg", kText}};
    CHECK(python("/env/bin", files) == "/env/bin/python3");
    CHECK(python("/conda/bin", files) == "/conda/bin/python3");
    CHECK(python("/opt/bin", files) == "/usr/bin/python3");
    CHECK(python("/odd/bin", files) == "/usr/bin/python3");
    CHECK(python("", files) == "/usr/bin/python3");
  }

  TEST_CASE("program: a missing python3 is reported with a remedy") {
    CHECK(contains(resolved({"train.py"}, {{"/home/me/train.py", kText}}, {{"PATH", "/sbin"}}),
                   "python3: not found in PATH; set PYTHON_EXEC"));
  }

  TEST_CASE("program: a bare name is searched only in PATH and in ddprun's folder") {
    const std::string here = "/home/me/trainer";
    const std::string in_path = "/usr/bin/trainer";
    const std::string beside = "/opt/ddprun/bin/trainer";
    CHECK(resolved({"trainer"}, {{here, kRuns}, {in_path, kRuns}, {beside, kRuns}}) == in_path);
    CHECK(resolved({"trainer"}, {{here, kRuns}, {beside, kRuns}}) == beside);
    CHECK(contains(resolved({"trainer"}, {{here, kRuns}}), "; did you mean ./trainer?"));
    CHECK(resolved({"trainer"}, {{in_path, kRuns}, {beside, kRuns}}) == in_path);
    CHECK(resolved({"trainer"}, {{beside, kRuns}}) == beside);
    CHECK(resolved({"--no_python", "trainer"}, {{beside, kRuns}}) == beside);
  }

  TEST_CASE("program: an earlier folder in PATH wins and an empty one is the current folder") {
    const Files files = {{"/a/tool", kRuns}, {"/b/tool", kRuns}, {"/home/me/other", kRuns}};
    CHECK(resolved({"tool"}, files, {{"PATH", "/b:/a"}}) == "/b/tool");
    CHECK(resolved({"other"}, files, {{"PATH", "/a:"}}) == "/home/me/other");
  }

  TEST_CASE("program: folders and files without execute permission are skipped") {
    const Files files = {{"/home/me/trainer", kFolder},
                         {"/usr/local/bin/trainer", kText},
                         {"/opt/ddprun/bin/trainer", kRuns}};
    CHECK(resolved({"trainer"}, files) == "/opt/ddprun/bin/trainer");
  }

  TEST_CASE("program: a path is not searched in PATH") {
    CHECK(resolved({"./run"}, {{"/home/me/run", kRuns}}) == "./run");
    CHECK(resolved({"./run"}, {{"/usr/bin/run", kRuns}}) == "? ./run: no such file");
    CHECK(resolved({"bin/run"}, {{"/home/me/bin/run", kFolder}}) ==
          "? bin/run: is a folder, not a program");
    CHECK(contains(resolved({"./run"}, {{"/home/me/run", kText}}),
                   "./run: is not executable (chmod +x ./run"));
  }

  TEST_CASE("program: --no_python needs an executable script") {
    CHECK(resolved({"--no_python", "./t.py"}, {{"/home/me/t.py", kRuns}}) == "./t.py");
    CHECK(resolved({"--no_python", "./t.py"}, {{"/home/me/t.py", kText}}) ==
          "? ./t.py: is not executable (chmod +x ./t.py; without --no_python Python runs it)");
  }

  TEST_CASE("program: --run_path runs any file with Python like torchrun") {
    const Files files = {{"/home/me/t.sh", kText}};
    const std::string expected = "/usr/bin/python3 -u t.sh";
    CHECK(resolved({"--run_path", "t.sh"}, files) == expected);
    CHECK(resolved({"--run_path", "--no_python", "t.sh"}, files) == expected);
    CHECK(resolved({"--run_path", "--module", "t.sh"}, files) == expected);
    CHECK(resolved({"--run_path", "lost"}) == "? lost: no such file in /home/me");
  }

  TEST_CASE("program: a missing program is reported with searched folders or similar names") {
    CHECK(resolved({"trian.py"}) == "? trian.py: no such file in /home/me");
    CHECK(resolved({"train.py"}, {{"/home/me/train.py", kFolder}}) ==
          "? train.py: is a folder without a __main__.py, not a script");
    CHECK(resolved({"trainer"}) ==
          "? trainer: not found in PATH, nor in the folder of ddprun (/opt/ddprun/bin)");
    CHECK(contains(resolved({"train"}, {{"/home/me/train.py", kText}}), "did you mean train.py?"));
    CHECK(contains(resolved({"train"}, {{"/home/me/train", kText}}),
                   "; ./train is not executable (chmod +x train"));
    CHECK(contains(resolved({""}), "name of the program is empty"));
  }
}

TEST_SUITE("macros") {
  TEST_CASE("macros: templates are expanded like in Python") {
    const std::pair<const char*, const char*> cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"${local_rank}", "7"},
        {"$local_rank", "7"},
        {"a${local_rank}b$local_rank-c", "a7b7-c"},
        {"$local_ranks", "$local_ranks"},
        {"$local_rank_", "$local_rank_"},
        {"$local_rank0", "$local_rank0"},
        {"$local_ran", "$local_ran"},
        {"${local_rank", "${local_rank"},
        {"${rank}", "${rank}"},
        {"${ local_rank}", "${ local_rank}"},
        {"$$", "$"},
        {"$$$$", "$$"},
        {"$$local_rank", "$local_rank"},
        {"$$$local_rank", "$7"},
        {"$", "$"},
        {"100$", "100$"},
        {"$ {local_rank}", "$ {local_rank}"},
        {"$LOCAL_RANK", "$LOCAL_RANK"},
    };
    for (const auto& [text, expected] : cases) CHECK(expand_macros(text, 7) == expected);
  }
}

}  // namespace resolve_program_test

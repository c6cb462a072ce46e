// ddprun under the names of other launchers, by links like those of users.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>

#include <filesystem>

namespace invocation_test {

using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

/// A link to ddprun in its own folder.
class Link {
 public:
  explicit Link(const std::string& name) : path_(folder_ / name) {
    fs::create_symlink(in_bin("ddprun"), path_);
  }
  const std::string& path() const { return path_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

/// A shell script in place of an interpreter that prints its arguments.
std::string make_interpreter(const std::string& path) {
  write_file(path, "#!/bin/sh\necho \"python $*\"\n", true);
  return path;
}

}  // namespace

TEST_SUITE("invocation") {
  TEST_CASE("invocation: a link named torchrun runs every program with Python") {
    const Link link("torchrun");
    const auto script = link.folder() / "train";
    const auto python = make_interpreter(link.folder() / "interpreter");
    write_file(script, "", true);
    const auto result = run_program({link.path(), "--nproc_per_node=2", script, "--lr", "1"},
                                    {{"PYTHON_EXEC", python}});
    CHECK(result.exit_code == 0);
    CHECK(count(result.output, "python -u " + script + " --lr 1\n") == 2);
  }

  TEST_CASE("invocation: a successful run as torchrun prints no messages of ddprun") {
    const Link link("torchrun");
    const auto arguments = launch({"--nproc_per_node=2"}, "echo hello", link.path());
    const std::map<std::string, std::string> threads = {{"OMP_NUM_THREADS", "1"}};
    CHECK_FALSE(contains(run_program(arguments, threads).output, "node 0"));
    CHECK(contains(run_program(arguments, {{"LOGLEVEL", "INFO"}}).output, "node 0: starting 2"));
  }

  TEST_CASE("invocation: a run as torchrun reports temporary folders and thread limits") {
    const Link link("torchrun");
    auto arguments = launch({"--nproc_per_node=2", "-r3"}, "echo hello", link.path());
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-u", "OMP_NUM_THREADS"});
    const auto result = run_program(arguments, {{"TMPDIR", link.folder().path()}});
    CHECK(contains(result.output, "logs are in " + link.folder().path().string() + "/ddprun_"));
    CHECK(contains(result.output, "OMP_NUM_THREADS is set to 1 for each worker"));
    CHECK(contains(run_program({link.path(), "--version"}).output, ", called as torchrun\n"));
  }

  TEST_CASE("invocation: the error for a log folder that cannot be created names --log_dir") {
    const auto result = run_program(launch({"--log_dir=/dev/null/no"}, "echo hello"));
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, "ddprun: --log_dir: folder /dev/null/no/"));
  }

  TEST_CASE("invocation: an invalid value from a variable is reported with the variable") {
    const std::map<std::string, std::string> variables = {{"PET_NODE_RANK", "3"},
                                                          {"PET_MASTER_PORT", "29500"}};
    const auto result = run_program(launch({}, "echo hello"), variables);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, "ddprun: PET_NODE_RANK=3: there is one node"));
    const auto argument = run_program(launch({"--node_rank=4"}, "echo hello"), variables);
    CHECK(contains(argument.output, "ddprun: --node_rank=4: there is one node"));
    const auto warned = run_program(launch({}, "echo hello"), {{"PET_NODE_RANK", "3"}});
    CHECK(contains(warned.output, "PET_NODE_RANK=3: is ignored, as there is one node"));
    const auto conf = run_program(launch({}, ""), {{"PET_RDZV_CONF", "rank=0,is_host=2"}});
    CHECK(contains(conf.output, "ddprun: PET_RDZV_CONF=rank=0,is_host=2: is_host=2: must be "));
  }

  TEST_CASE("invocation: an invalid value from a file is reported with line and column") {
    const TemporaryFolder folder;
    const auto file = folder / "job.json";
    write_file(file, R"({"version": 1,
"rendezvous": {"rdzv_conf": {"join_timeout": 60, "is_host": 2}}})");
    const auto result = run_program(launch({"--config=" + file}, ""));
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, file + ":2:29: rendezvous.rdzv_conf: is_host=2: must be "));
  }

  TEST_CASE("invocation: torchrun prefixes only tee output with torchrun's template") {
    const Link link("torchrun");
    const auto output = [&](const std::string& tee,
                            const std::map<std::string, std::string>& more) {
      const auto arguments =
          launch({"--nproc_per_node=2", "-t" + tee, "--role=trainer"}, "echo hello", link.path());
      auto environment = more;
      environment["TMPDIR"] = link.folder().path();
      environment["OMP_NUM_THREADS"] = "1";
      return run_program(arguments, environment).output;
    };
    CHECK(output("0", {}) == "hello\nhello\n");
    CHECK(output("2", {}).ends_with("\nhello\nhello\n"));
    CHECK(contains(output("1", {}), "[trainer1]:hello\n"));
    CHECK(output("0:1", {}).find("[trainer1]") == std::string::npos);
    const std::map<std::string, std::string> template_variable = {
        {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} ${local_rank}/${rank}> "}};
    CHECK(contains(output("1", template_variable), "<trainer 1/1> hello\n"));
    CHECK(output("0", template_variable) == "hello\nhello\n");
  }

  TEST_CASE("invocation: messages show the command's name and usage errors exit with 2") {
    const Link link("torchrun");
    const auto misspelt = run_program({link.path(), "--max_restart_=2", "train.py"});
    CHECK(misspelt.exit_code == 2);
    CHECK(contains(misspelt.output, "torchrun: unknown option --max_restart_"));
    CHECK(contains(misspelt.output, "Try 'torchrun --help'."));
    CHECK(contains(run_program({link.path(), "--help"}).output, "Usage: torchrun "));
    const auto unwritable =
        run_program({link.path(), "--events=/no/such/folder/file", "--no_python", "/bin/true"});
    CHECK(unwritable.exit_code == 2);
    CHECK(contains(unwritable.output, "torchrun: --events=/no/such/folder/file: cannot"));
  }

  TEST_CASE("invocation: a link in a virtual environment runs the environment's Python") {
    const TemporaryFolder environment;
    const auto bin = environment.path() / "bin";
    fs::create_directory(bin);
    write_file(environment / "pyvenv.cfg", "");
    make_interpreter(bin / "python3");
    fs::create_symlink(in_bin("ddprun"), bin / "torchrun");
    // Found through PATH, after another python3, and called by its path.
    const auto path = environment.path().string() + ":" + bin.string() + ":/usr/bin:/bin";
    write_file(environment / "python3", "#!/bin/sh\necho the wrong one\n", true);
    const auto found = run_program({"/bin/sh", "-c", "torchrun -m train"}, {{"PATH", path}});
    CHECK(contains(found.output, "python -u -m train\n"));
    const auto called = run_program({bin / "torchrun", "-m", "train"}, {{"PATH", path}});
    CHECK(contains(called.output, "python -u -m train\n"));
    const auto here = run_program({"/bin/sh", "-c", "cd " + bin.string() + "; ./torchrun -m train"},
                                  {{"PATH", path}});
    CHECK(contains(here.output, "python -u -m train\n"));
  }

  TEST_CASE("invocation: torch.distributed.launch prepends the local rank to the arguments") {
    const Link link("torch.distributed.launch");
    const auto script = link.folder() / "train.py";
    const auto python = make_interpreter(link.folder() / "python3");
    const auto version = link.folder() / "torch/version.py";
    write_file(script, "");
    fs::create_directory(fs::path(version).parent_path());
    write_file(version, "__version__ = '2.15.0+cu132'\n");
    const auto output = [&](const std::vector<std::string>& options) {
      std::vector<std::string> arguments = {link.path(), "--nproc_per_node=2"};
      arguments.insert(arguments.end(), options.begin(), options.end());
      arguments.insert(arguments.end(), {script, "--lr", "1"});
      return run_program(arguments,
                         {{"PYTHON_EXEC", python}, {"PYTHONPATH", link.folder().path().string()}})
          .output;
    };
    const auto expected = [&](const std::string& argument) {
      return "python -u " + script + " " + argument + " --lr 1\n";
    };
    for (const std::string rank : {"0", "1"}) {
      CHECK(count(output({}), expected("--local-rank=" + rank)) == 1);
    }
    write_file(version, "__version__ = '1.13.1'\n");
    for (const std::string rank : {"0", "1"}) {
      CHECK(count(output({}), expected("--local_rank=" + rank)) == 1);
    }
    CHECK(count(output({"--use_env"}), "python -u " + script + " --lr 1\n") == 2);
  }
}

}  // namespace invocation_test

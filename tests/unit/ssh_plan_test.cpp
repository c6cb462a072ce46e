// The plan of a start over ssh: commands, targets and task.
#include "launcher/ssh/ssh_plan.hpp"

#include "launcher/ssh/ssh_command.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/config_texts.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace ssh_plan_test {

using namespace ddprun;
using namespace ddprun::ssh;
using namespace ddprun::test;

namespace {

constexpr const char* kFile = R"({"version": 1,
  "job": {"command": ["train"]},
  "nodes": [{"name": "a", "address": "10.0.0.1"}, {"name": "b"}, {"name": "c"}],
  "ssh": {"user": "${WHO}", "port": 2222, "options": ["-i", "key"],
          "forward_variables": ["DATA_*", "HOME"]}})";

StarterFacts facts(const Variables& variables = {{"WHO", "me"}}) {
  StarterFacts facts{.ssh = "/usr/bin/ssh",
                     .program = "/opt/ddprun",
                     .folder = "/work",
                     .own_node = std::nullopt,
                     .variables = {},
                     .environment = lookup_in(variables),
                     .make_secret = [] { return "random"; }};
  for (const auto& [name, value] : variables) facts.variables.push_back(name);
  return facts;
}

std::variant<SshPlan, UsageProblem> planned(const Strings& arguments,
                                            const std::string& text = kFile,
                                            const StarterFacts& with = facts()) {
  return plan_ssh(config_of(text), text, read_arguments(arguments), with);
}

SshPlan plan(const Strings& arguments, const std::string& text = kFile,
             const StarterFacts& with = facts()) {
  auto made = planned(arguments, text, with);
  if (const auto* problem = std::get_if<UsageProblem>(&made)) FAIL(join(problem->problems, "\n"));
  return std::get<SshPlan>(std::move(made));
}

std::string problems(const Strings& arguments, const std::string& text = kFile,
                     const StarterFacts& with = facts()) {
  const auto made = planned(arguments, text, with);
  const auto* problem = std::get_if<UsageProblem>(&made);
  return problem == nullptr ? "" : join(problem->problems, "\n");
}

std::string with_rendezvous(const std::string& members) {
  return R"({"version": 1, "nodes": [{"name": "n[1-4]"}], "rendezvous": {)" + members + "}}";
}

std::string names_of(const SshPlan& plan) {
  Strings names;
  for (const auto& target : plan.targets) names.push_back(target.name);
  return join(names, " ");
}

}  // namespace

TEST_SUITE("ssh command") {
  TEST_CASE("ssh command: configured options come first and a destination is never an option") {
    const auto command = ssh_command("/usr/bin/ssh", plan({}).settings, "-oProxyCommand=x");
    const Strings start = {"/usr/bin/ssh", "-i", "key", "-p", "2222", "-l", "me", "-o"};
    CHECK(Strings(command.begin(), command.begin() + 8) == start);
    const Strings end = {"-T", "--", "-oProxyCommand=x", "exec '/opt/ddprun' agent-over-ssh"};
    CHECK(Strings(command.end() - 4, command.end()) == end);
    CHECK(std::find(command.begin(), command.end(), "BatchMode=yes") != command.end());
    for (const auto& word : command) CHECK(word.find("StrictHostKeyChecking") == std::string::npos);
  }

  TEST_CASE("ssh command: a quoted path is one word in every shell") {
    CHECK(quoted_for_shell("/opt/a b/ddprun") == "'/opt/a b/ddprun'");
    CHECK(quoted_for_shell("it's $(x)") == "'it'\\''s $(x)'");
    CHECK(quoted_for_shell("") == "''");
  }

  TEST_CASE("ssh command: a failed start is described by the last line of ssh or the shell") {
    const std::string program = "/opt/ddprun";
    CHECK(describe_no_answer(255, "ssh: No route to host", program) ==
          "ssh could not connect: No route to host");
    CHECK(describe_no_answer(127, "sh: not found", program) ==
          "/opt/ddprun cannot be run there: sh: not found; set ssh.program in the file to the "
          "path of ddprun");
    CHECK(contains(describe_no_answer(126, "", program), "/opt/ddprun cannot be run there"));
    CHECK(describe_no_answer(-9, "", program) == "ssh was killed by signal 9");
    CHECK(describe_no_answer(2, "no such option", program) ==
          "ddprun there ended with exit code 2 before it responded: no such option");
  }
}

TEST_SUITE("ssh plan") {
  TEST_CASE("ssh plan: a node without an address is reached by its name") {
    const auto made = plan({"--max_restarts=2", "-m", "prog", "--ssh"});
    REQUIRE(made.targets.size() == 3);
    CHECK(made.targets[0] == Target{.node = 0, .name = "a", .destination = "10.0.0.1"});
    CHECK(made.targets[1] == Target{.node = 1, .name = "b", .destination = "b"});
    CHECK(made.nodes_min == 3);
    CHECK(made.host == 0);
    CHECK(made.task.folder == "/work");
    CHECK(made.settings ==
          SshSettings{
              .user = "me", .port = 2222, .options = {"-i", "key"}, .program = "/opt/ddprun"});
  }

  TEST_CASE("ssh plan: all arguments except those of the start are passed to the nodes") {
    const auto made = plan({"--config=c.json", "--ssh", "--node_name=a", "--max-restarts", "2",
                            "-m", "prog", "--ssh", "a b"});
    CHECK(made.task.arguments ==
          Strings{"--max_restarts=2", "--module", "--", "prog", "--ssh", "a b"});
    CHECK(made.task.config_text == kFile);
    CHECK(made.task.config_name == "c.json");
  }

  TEST_CASE("ssh plan: variables of options and those listed in the file are forwarded") {
    const auto with = facts({{"WHO", "me"},
                             {"PET_MAX_RESTARTS", "1"},
                             {"DDPRUN_NODE", "a"},
                             {"DATA_DIR", "/d"},
                             {"HOME", "/h"},
                             {"HOMEPAGE", "x"},
                             {"LOGLEVEL", "DEBUG"}});
    CHECK(plan({}, kFile, with).task.variables ==
          Strings{"DATA_DIR=/d", "HOME=/h", "LOGLEVEL=DEBUG", "PET_MAX_RESTARTS=1"});
  }

  TEST_CASE("ssh plan: the node of this machine is started without ssh") {
    auto with = facts();
    with.own_node = 1;
    const auto made = plan({}, kFile, with);
    REQUIRE(made.own);
    CHECK(made.own->name == "b");
    CHECK(names_of(made) == "a c");
  }

  TEST_CASE("ssh plan: a fixed nnodes selects the first nodes and a range adds spares") {
    CHECK(names_of(plan({"--nnodes=2"}, with_rendezvous(""))) == "n1 n2");
    const auto dynamic = plan(
        {},
        with_rendezvous(R"("nnodes": "1:2", "rdzv_backend": "c10d", "rdzv_endpoint": "n3:29400")"));
    CHECK(names_of(dynamic) == "n1 n2 n3 n4");
    CHECK(dynamic.nodes_min == 1);
    CHECK(dynamic.host == 2);
    CHECK_FALSE(plan({"--master_addr=elsewhere"}, with_rendezvous("")).host);
    CHECK_FALSE(plan({"--rdzv_backend=etcd"}, with_rendezvous("")).host);
    CHECK(contains(problems({"--nnodes=5"}, with_rendezvous("")), "asks for at least 5 nodes"));
  }

  TEST_CASE("ssh plan: a random secret is sent to the nodes unless security is configured") {
    CHECK(plan({}).task.secret == "random");
    CHECK(plan({"--security=open"}).task.secret == "");
    CHECK(plan({"--secret_file=f"}).task.secret == "");
    std::string text = kFile;
    text.insert(text.find("\"nodes\""), "\"security\": {\"secret_file\": \"f\"}, ");
    CHECK(plan({}, text).task.secret == "");
  }

  TEST_CASE("ssh plan: output lines get the node's name unless a prefix is set") {
    CHECK(plan({}).has_node_prefix);
    CHECK_FALSE(plan({"--prefix=none"}).has_node_prefix);
    CHECK_FALSE(plan({"--log_line_prefix_template=x"}).has_node_prefix);
  }

  TEST_CASE("ssh plan: all problems are reported together") {
    const auto text = problems(
        {"--node_rank=1", "--local_addr=x", "--standalone", "--stdin=0", "--max_restarts=x"});
    for (const char* part :
         {"--ssh: --node_rank differs between nodes", "--ssh: --local_addr differs",
          "--standalone is for one node", "--stdin is not supported", "--max_restarts=x: "}) {
      CHECK(contains(text, part));
    }
    CHECK(contains(problems({}, R"({"version": 1})"), "c.json has no \"nodes\""));
    CHECK(contains(problems({"--nope"}), "unknown option --nope"));
    auto without_ssh = facts();
    without_ssh.ssh = "";
    CHECK(contains(problems({}, kFile, without_ssh), "no ssh in PATH"));
    CHECK(contains(problems({"prog", std::string(kTaskBytesMax, 'x')}), "exceed"));
    std::string demanding = kFile;
    demanding.replace(demanding.find("${WHO}"), 6, "${WHO:?who are you}");
    CHECK(contains(problems({}, demanding, facts({})), "c.json: ssh.user: "));
  }

  TEST_CASE("ssh plan: more than 128 nodes including spares are rejected") {
    const auto file = [](int nodes) {
      return R"({"version": 1, "nodes": [{"name": "n[1-)" + std::to_string(nodes) +
             R"(]"}], "rendezvous": {"rdzv_backend": "c10d", "rdzv_endpoint": "n1"}})";
    };
    CHECK(plan({}, file(128)).targets.size() == 128);
    CHECK(contains(problems({"--nnodes=2:64"}, file(129)),
                   "--ssh: starts at most 128 nodes, c.json asks for 129; start larger runs with a "
                   "scheduler such as Slurm"));
    CHECK(plan({"--nnodes=128", "--rdzv_backend=static"}, file(129)).targets.size() == 128);
  }

  TEST_CASE("ssh plan: a dry run shows the commands without secrets") {
    const auto text = describe(plan({"prog"}));
    CHECK(contains(text, "a: '/usr/bin/ssh' '-i' 'key' '-p' '2222' '-l' 'me' "));
    CHECK(contains(text, "\nc: '/usr/bin/ssh' "));
    CHECK(contains(text, "with: '--' 'prog'"));
    CHECK_FALSE(contains(text, "random"));
  }
}

}  // namespace ssh_plan_test

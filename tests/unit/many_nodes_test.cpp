// Options about nodes in a run of several nodes, and rejected combinations.
#include "launcher/plan/many_nodes.hpp"

#include "launcher/plan/rdzv_conf.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

namespace many_nodes_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

struct Planned {
  NodesPlan plan;
  std::vector<std::string> problems;
  std::vector<std::string> warnings;
};

Planned planned(Strings arguments, bool is_open_by_default = true) {
  arguments.insert(arguments.end(), {"--no_python", "/bin/true"});
  auto options = options_of(arguments);
  options.is_open_by_default = is_open_by_default;
  Planned result;
  result.plan = plan_nodes(options, read_rdzv_conf(options.rdzv_conf, result.problems), "machine",
                           result.problems, result.warnings);
  return result;
}

struct Place {
  Strings arguments;
  std::string endpoint;
  std::optional<bool> is_host;
  std::string name;
  int node_rank;
};

const Place kPlaces[] = {
    {{"--nnodes=2", "--master_addr=a"}, "a:29500", {}, "machine", 0},
    {{"--nnodes=2", "--master_addr=a", "--node_rank=0"}, "a:29500", true, "machine", 0},
    {{"--nnodes=2", "--master_addr=a", "--node_rank=1"}, "a:29500", false, "machine", 1},
    {{"--nnodes=2", "--master_addr=a", "--master_port=7"}, "a:7", {}, "machine", 0},
    {{"--nnodes=2", "--rdzv_endpoint=b:8"}, "b:8", {}, "machine", 0},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_endpoint=b:8"}, "b:8", {}, "machine", 0},
    {{"--nnodes=2", "--master_port=7", "--rdzv_endpoint=b:8"}, "b:8", {}, "machine", 0},
    {{"--nnodes=2", "--master_port=7", "--rdzv_endpoint=b"}, "b:7", {}, "machine", 0},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_conf=rank=1"}, "a:29500", false, "machine", 1},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_conf=is_host=0"}, "a:29500", false, "machine", 0},
    {{"--nnodes=1:4", "--rdzv_backend=c10d", "--rdzv_endpoint=b"}, "b:29400", {}, "machine", -1},
    {{"--nnodes=4", "--rdzv_backend=c10d", "--rdzv_endpoint=b:8", "--node_rank=3"},
     "b:8",
     {},
     "machine",
     3},
    {{"--nnodes=4", "--rdzv_backend=c10d", "--rdzv_endpoint=b", "--local_addr=10.0.0.1"},
     "b:29400",
     {},
     "10.0.0.1",
     -1},
};

struct Refusal {
  Strings arguments;
  std::string text;
};

const Refusal kRefusals[] = {
    {{"--nnodes=2"}, "--master_addr or --rdzv_endpoint is missing; "},
    {{"--nnodes=2", "--rdzv_backend=c10d"}, "--rdzv_endpoint is missing"},
    {{"--nnodes=1:2", "--master_addr=a"}, "--nnodes=1:2: --rdzv_backend=static has a fixed number"},
    {{"--nnodes=2", "--master_addr=a", "--node_rank=2"}, "--node_rank=2: there are 2 nodes"},
    {{"--nnodes=2", "--master_addr=a:7"}, "--master_addr=a:7: is an address and a port"},
    {{"--nnodes=2", "--master_addr=a", "--master_port=0"},
     "--master_port: the port must be known to all nodes, not 0; without one it is 29500"},
    {{"--nnodes=2", "--rdzv_endpoint=a:0"}, "--rdzv_endpoint: the port must be known to all nodes"},
    {{"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=a:0"},
     "--rdzv_endpoint: the port must be known to all nodes, not 0; without one it is 29400"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_endpoint=a,b:0"},
     "--rdzv_endpoint: the port must be known to all nodes, not 0; without one it is 2379"},
    {{"--nnodes=4096", "--rdzv_backend=etcd", "--local_addr=" + std::string(200, 'n')},
     "the node's name takes 200 bytes of what is recorded of the run in etcd (at most 184,"},
    {{"--nnodes=2", "--master_addr=a", "--local_addr=" + std::string(256, 'n')},
     "the node's name has 256 bytes (at most 255)"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--restart_window=60", "--max_restarts=1001"},
     "--max_restarts=1001: at most 1000 with --restart_window and --rdzv_backend=etcd"},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_conf=store_port=7"},
     "store_port=7: without a secret the store is at the port of the rendezvous"},
    {{"--nnodes=2", "--master_addr=a", "--secret_file=s", "--rdzv_conf=store_port=29500"},
     "store_port=29500: the rendezvous is at that port"},
    {{"--nnodes=2", "--standalone"}, "--standalone contradicts --nnodes=2"},
    {{"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=a,b"},
     "--rdzv_endpoint: several addresses"},
    {{"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=a", "--rdzv_conf=protocol=https"},
     "protocol=https: is for --rdzv_backend=etcd; between nodes nothing is encrypted"},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_conf=protocol=HTTPS"},
     "protocol=https: is for --rdzv_backend=etcd; between nodes nothing is encrypted"},
    {{"--nnodes=2", "--rdzv_backend=etcd"}, "--rdzv_endpoint is missing; give etcd's address"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_endpoint=e"},
     "--rdzv_id is missing; give the run a name"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--master_addr=a"}, "--master_addr=a: with"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_conf=is_host=1"}, "is_host: with"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_conf=lease_timeout=3.5"},
     "--rdzv_conf=lease_timeout: must not be more than etcd_lease_timeout (3 s)"},
    {{"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_conf=rejoin_timeout=6"},
     "--rdzv_conf=rejoin_timeout: must be more than twice etcd_lease_timeout (3 s)"},
};

struct Setting {
  std::map<std::string, std::string> conf;
  std::chrono::milliseconds membership::Settings::*time;
  std::chrono::milliseconds value;
};

const Setting kSettings[] = {
    {{}, &membership::Settings::join_timeout, 600s},
    {{{"timeout", "5"}}, &membership::Settings::join_timeout, 5s},
    {{{"timeout", "5"}, {"join_timeout", "6"}}, &membership::Settings::join_timeout, 6s},
    {{{"join_timeout", "0.1"}}, &membership::Settings::join_timeout, 100ms},
    {{{"last_call_timeout", "0.2"}}, &membership::Settings::last_call_timeout, 200ms},
    {{{"exit_barrier_timeout", "0"}}, &membership::Settings::exit_barrier_timeout, 0s},
    {{{"rejoin_timeout", "7"}}, &membership::Settings::rejoin_timeout, 7s},
    {{}, &membership::Settings::waiting_notice, 30s},
    {{{"waiting_notice", "0.2"}}, &membership::Settings::waiting_notice, 200ms},
    {{}, &membership::Settings::lease, 3s},
    {{{"keep_alive_interval", "5"}}, &membership::Settings::lease, 15s},
    {{{"keep_alive_interval", "5"}, {"keep_alive_max_attempt", "2"}},
     &membership::Settings::lease,
     10s},
    {{{"keep_alive_interval", "5"}, {"lease_timeout", "4"}}, &membership::Settings::lease, 4s},
    {{{"lease_timeout", "0.2"}}, &membership::Settings::lease, 200ms},
};

struct BadSetting {
  std::string key, value, text;
};

const BadSetting kBadSettings[] = {
    {"lease_timeout", "0.1", "a node that is busy for a moment would be taken for lost"},
    {"waiting_notice", "0.1", "is not a number of seconds from 0.2 to 31536000 (a year)"},
    {"probe_timeout", "61", "is not a number of seconds from 0 to 60"},
    {"probe_timeout", "-1", "is not a number of seconds from 0 to 60"},
    {"probe_timeout", "abc", "is not a number of seconds from 0 to 60"},
    {"foo", "1", "unknown key; see 'Settings of the rendezvous' in ddprun(1)"},
    {"join_timeout", "soon", "--rdzv_conf=join_timeout=soon: "},
    {"join_timeout", "0", "join_timeout=0: is not a number of seconds from 0.1 to 31536000"},
    {"timeout", "0", "--rdzv_conf=timeout=0: is not a number of seconds from 0.1 to 31536000"},
    {"join_timout", "5", "--rdzv_conf=join_timout=5: unknown key; did you mean join_timeout?"},
    {"keep_alive_max_attempt", "0", "is not an integer from 1 to 1000"},
    {"is_host", "maybe", "--rdzv_conf=is_host=maybe: must be 1, true, "},
    {"is_host", "2", "--rdzv_conf=is_host=2: must be "},
    {"check_users", "2", "--rdzv_conf=check_users=2: must be "},
    {"use_libuv", "2", "--rdzv_conf=use_libuv=2: must be "},
    {"rank", "-1", "is not an integer from 0 to 1000000"},
    {"store_type", "file", "the only store is tcp"},
    {"store_port", "65536", "is not an integer from 0 to 65535"},
    {"read_timeout", "x", "--rdzv_conf=read_timeout=x: "},
    {"protocol", "grpc", "--rdzv_conf=protocol=grpc: is neither http nor https"},
    {"cacert", "a", "--rdzv_conf=cacert=a: is for --rdzv_backend=etcd with protocol=https"},
    {"ssl_cert", "a", "--rdzv_conf=ssl_cert=a: is for --rdzv_backend=etcd with protocol=https"},
    {"cert", "", "--rdzv_conf=cert=: is empty; give a file in PEM format"},
    {"etcd_lease_timeout", "1", "is not an integer from 2 to 31536000"},
    {"etcd_lease_timeout", "2.5", "is not an integer from 2 to 31536000"},
    {"etcd_prefix", "", "--rdzv_conf=etcd_prefix=: is empty"},
    {"etcd_prefix", "/a/", "--rdzv_conf=etcd_prefix=/a/: ends with '/'"},
};

}  // namespace

TEST_SUITE("options about nodes") {
  TEST_CASE("many nodes: endpoint and host and node rank follow from the options") {
    for (const auto& row : kPlaces) {
      CAPTURE(join(row.arguments, " "));
      const auto [plan, problems, warnings] = planned(row.arguments);
      CHECK(join(problems, "; ") == "");
      CHECK(plan.endpoint_host + ":" + std::to_string(plan.endpoint_port) == row.endpoint);
      CHECK(plan.is_host == row.is_host);
      CHECK(plan.name == row.name);
      CHECK(plan.node_rank == row.node_rank);
    }
  }

  TEST_CASE("many nodes: all etcd endpoints are used and any node may become host") {
    const auto [plan, problems, warnings] =
        planned({"--nnodes=1:4", "--rdzv_backend=etcd", "--rdzv_endpoint=e0,[::1]:7",
                 "--rdzv_id=job", "--rdzv_conf=etcd_lease_timeout=5,etcd_prefix=/mine",
                 "--local_addr=10.0.0.1", "--master_port=29500"});
    CHECK(join(problems, "; ") == "");
    REQUIRE(plan.etcd);
    CHECK(plan.etcd->endpoints == std::vector<StoreEndpoint>{{"e0", 2379}, {"::1", 7}});
    CHECK(plan.etcd->lease == std::chrono::seconds(5));
    CHECK(plan.etcd->prefix == "/mine");
    CHECK(plan.etcd->local_addr == "10.0.0.1");
    CHECK(plan.etcd->port == 29500);
    CHECK(plan.settings.answer_timeout == std::chrono::seconds(5));
    CHECK_FALSE(plan.is_host);
    CHECK(planned({"--nnodes=2", "--rdzv_backend=etcd-v2", "--rdzv_endpoint=e0", "--rdzv_id=a"})
              .plan.etcd->port == 0);
  }

  TEST_CASE("many nodes: options that are invalid on several nodes are reported") {
    for (const auto& row : kRefusals) {
      const auto problems = join(planned(row.arguments).problems, "; ");
      CAPTURE(problems);
      CHECK(problems.find(row.text) != std::string::npos);
    }
  }

  TEST_CASE("many nodes: an etcd key with another backend gives a warning") {
    const std::string conf = "--rdzv_conf=etcd_prefix=/a,etcd_lease_timeout=5,protocol=http";
    const auto warnings_with = [&](const std::string& backend) {
      const auto made = planned({"--nnodes=2", "--rdzv_backend=" + backend, "--rdzv_endpoint=a",
                                 "--rdzv_id=job", "--security=open", conf});
      CHECK(join(made.problems, "; ") == "");
      return made.warnings;
    };
    for (const std::string backend : {"c10d", "static"}) {
      const std::string end = ": has no effect without --rdzv_backend=etcd";
      CHECK(warnings_with(backend) ==
            Strings{"--rdzv_conf=etcd_prefix" + end, "--rdzv_conf=etcd_lease_timeout" + end});
    }
    CHECK(warnings_with("etcd").empty());
    CHECK(warnings_with("etcd-v2").empty());
  }

  TEST_CASE("many nodes: the settings that nodes compare follow from the options") {
    auto options = options_of({"--nnodes=2:3", "--rdzv_backend=c10d", "--rdzv_endpoint=b",
                               "--max_restarts=4", "--security=open", "--no_python", "/bin/true"});
    options.from_config.hash = "h";
    options.from_config.outline = "{}";
    std::vector<std::string> problems, warnings;
    const auto settings = plan_nodes(options, read_rdzv_conf(options.rdzv_conf, problems),
                                     "machine", problems, warnings)
                              .settings;
    CHECK(problems.empty());
    CHECK(warnings.empty());
    CHECK(settings.nodes_min == 2);
    CHECK(settings.nodes_max == 3);
    CHECK(settings.restarts.max_restarts == 4);
    CHECK(settings.run_id == "none");
    CHECK(settings.config_hash == "h");
    CHECK(settings.config_outline.empty());  // any node may ask for it
    CHECK(has_many_nodes(options));
    CHECK_FALSE(has_many_nodes(options_of({"--no_python", "/bin/true"})));
    options.rdzv_id = "mine";
    CHECK(run_id_of_nodes(options) == "mine");
  }

  TEST_CASE("many nodes: several nodes require a secret or --security=open") {
    const Strings nodes = {"--nnodes=2", "--master_addr=a"};
    const auto with = [&](const std::string& option) {
      return Strings{nodes[0], nodes[1], option};
    };
    const auto refused = planned(nodes, false);
    const std::string remedy =
        " --secret_file=FILE ('ddprun keygen FILE' writes it; copy it to all nodes), or "
        "--security=open on a trusted network";
    CHECK(refused.problems == Strings{"--nnodes=2 needs" + remedy});
    auto derived = options_of({nodes[0], nodes[1], "--no_python", "/bin/true"});
    derived.from_config.nodes_from = "Slurm";
    Strings problems;
    Strings warnings;
    plan_nodes(derived, {}, "machine", problems, warnings);
    CHECK(problems == Strings{"2 nodes (from Slurm) need a shared secret:" + remedy});
    const auto kept = planned(with("--secret_file=run.key"), false);
    CHECK(kept.problems.empty());
    const auto open = planned(with("--security=open"), false);
    CHECK(open.problems.empty());
    CHECK(open.warnings.empty());
    const auto as_torchrun = planned(nodes);
    CHECK(as_torchrun.problems.empty());
    REQUIRE(as_torchrun.warnings.size() == 1);
    CHECK(as_torchrun.warnings[0].find("--secret_file") != std::string::npos);
    CHECK(planned(with("--secret_file=run.key")).warnings.empty());
    CHECK(planned(with("--security=open")).warnings.empty());
    const auto both = planned({nodes[0], nodes[1], "--security=open", "--secret_file=run.key"});
    CHECK(both.problems == Strings{"--security=open and --secret_file exclude each other"});
  }

  TEST_CASE("many nodes: --rdzv_conf sets times and specific keys override general ones") {
    for (const auto& row : kSettings) {
      std::vector<std::string> problems;
      CHECK(read_rdzv_conf(row.conf, problems).settings.*row.time == row.value);
      CHECK(problems.empty());
    }
  }

  TEST_CASE("many nodes: TLS keys of both etcd backends of torchrun are accepted") {
    const auto read = [](const std::map<std::string, std::string>& conf) {
      std::vector<std::string> problems;
      const auto tls = read_rdzv_conf(conf, problems).etcd.tls;
      CHECK(problems.empty());
      return tls;
    };
    CHECK_FALSE(read({}));
    CHECK_FALSE(read({{"protocol", "http"}}));
    CHECK(read({{"protocol", "https"}}) == security::TlsFiles{});
    const security::TlsFiles files{"a", "c", "k"};
    CHECK(read({{"protocol", "HTTPS"}, {"cacert", "a"}, {"cert", "c"}, {"key", "k"}}) == files);
    CHECK(
        read({{"protocol", "https"}, {"ca_cert", "a"}, {"ssl_cert", "c"}, {"ssl_cert_key", "k"}}) ==
        files);
    std::vector<std::string> problems;
    read_rdzv_conf({{"protocol", "https"}, {"key", "k"}}, problems);
    CHECK(problems == std::vector<std::string>{
                          "--rdzv_conf=key=k: belongs to a certificate; give that, too (cert)"});
  }

  TEST_CASE("many nodes: is_host accepts torchrun's booleans in any case") {
    for (const std::string word : {"1", "true", "T", "Yes", "y", "0", "FALSE", "f", "no", "N"}) {
      std::vector<std::string> problems;
      const bool is_yes = std::string("1tTYy").find(word[0]) != std::string::npos;
      CHECK(read_rdzv_conf({{"is_host", word}}, problems).is_host == is_yes);
      CHECK(problems.empty());
    }
  }

  TEST_CASE("many nodes: an invalid value of --rdzv_conf is reported with its key") {
    for (const auto& row : kBadSettings) {
      std::vector<std::string> problems;
      read_rdzv_conf({{row.key, row.value}}, problems);
      REQUIRE(problems.size() == 1);
      CAPTURE(problems[0]);
      CHECK(problems[0].find(row.text) != std::string::npos);
    }
  }
}

}  // namespace many_nodes_test

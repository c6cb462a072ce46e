#include "worker_runtime/backends/mpi/pmi_messages.hpp"

#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace pmi_messages_test {

using namespace ddprun::mpi;

namespace {

/// The functions write down what they are asked.
struct Asked {
  std::string log;
  PmiFunctions functions() {
    return {.put = [this](const std::string& key,
                          const std::string& value) { log += "put " + key + " " + value; },
            .get =
                [this](const std::string& key) {
                  log += "get " + key;
                  return std::string("there");
                },
            .mapping =
                [this] {
                  log += "mapping";
                  return std::string("(vector,(0,1,1))");
                },
            .barrier = [this] { log += "barrier"; }};
  }
};

}  // namespace

TEST_SUITE("pmi messages") {
  TEST_CASE("each command has its answer") {
    struct Row {
      const char* line;
      const char* answer;
      const char* asked;
    };
    const std::vector<Row> rows = {
        {"cmd=init pmi_version=1 pmi_subversion=1",
         "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", ""},
        {"cmd=get_maxes", "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024\n", ""},
        {"cmd=get_appnum", "cmd=appnum appnum=0\n", ""},
        {"cmd=get_universe_size", "cmd=universe_size size=-1\n", ""},
        {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=ddprun\n", ""},
        {"cmd=put kvsname=ddprun key=-allgather-3 value=abc=#1",
         "cmd=put_result rc=0 msg=success\n", "put -allgather-3 abc=#1"},
        {"cmd=get kvsname=ddprun key=k", "cmd=get_result rc=0 msg=success value=there\n", "get k"},
        {"cmd=get kvsname=ddprun key=PMI_process_mapping",
         "cmd=get_result rc=0 msg=success value=(vector,(0,1,1))\n", "mapping"},
        {"cmd=get kvsname=ddprun key=PMI_mpi_memory_alloc_kinds",
         "cmd=get_result rc=-1 msg=key_PMI_mpi_memory_alloc_kinds_not_found value=unknown\n", ""},
        {"cmd=barrier_in", "cmd=barrier_out\n", "barrier"},
        {"cmd=finalize", "cmd=finalize_ack\n", ""},
    };
    for (const auto& row : rows) {
      CAPTURE(row.line);
      Asked asked;
      const auto answer = answer_pmi(row.line, asked.functions());
      CHECK(answer.line == row.answer);
      CHECK(answer.is_last == (std::string(row.line) == "cmd=finalize"));
      CHECK(asked.log == row.asked);
    }
  }

  TEST_CASE("what it does not know is an error that shows it") {
    for (const char* line : {"cmd=spawn nprocs=2", "", "nonsense", "cmd="}) {
      Asked asked;
      CHECK_THROWS_WITH_AS(answer_pmi(line, asked.functions()), doctest::Contains(line),
                           ddprun::Error);
    }
  }

  TEST_CASE("ranks are mapped to nodes in blocks") {
    CHECK(process_mapping({0, 0, 0}) == "(vector,(0,1,3))");
    CHECK(process_mapping({0, 0, 1, 1, 1}) == "(vector,(0,1,2),(1,1,3))");
    CHECK(process_mapping({0}) == "(vector,(0,1,1))");
  }
}

}  // namespace pmi_messages_test

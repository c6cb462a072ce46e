#include "worker_runtime/backends/mpi/pmi_messages.hpp"

#include <ddprun/error.hpp>

#include <map>
#include <sstream>

namespace ddprun::mpi {

namespace {

constexpr char kSpace[] = "ddprun";  // the name of the one key-value space
constexpr char kReservedPrefix[] = "PMI_";
constexpr char kMappingKey[] = "PMI_process_mapping";

std::map<std::string, std::string> words_of(const std::string& line) {
  std::map<std::string, std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) continue;
    words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return words;
}

}  // namespace

PmiAnswer answer_pmi(const std::string& line, const PmiFunctions& functions) {
  auto words = words_of(line);
  const std::string command = words["cmd"];
  if (command == "init") return {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"};
  if (command == "get_maxes") {
    return {"cmd=maxes kvsname_max=64 keylen_max=" + std::to_string(kPmiKeyBytesMax) +
            " vallen_max=" + std::to_string(kPmiValueBytesMax) + "\n"};
  }
  if (command == "get_appnum") return {"cmd=appnum appnum=0\n"};
  if (command == "get_universe_size") return {"cmd=universe_size size=-1\n"};
  if (command == "get_my_kvsname") return {std::string("cmd=my_kvsname kvsname=") + kSpace + "\n"};
  if (command == "put") {
    functions.put(words["key"], words["value"]);
    return {"cmd=put_result rc=0 msg=success\n"};
  }
  if (command == "get") {
    const std::string& key = words["key"];
    const bool is_mapping = key == kMappingKey;
    // Such keys are the manager's own. MPICH 4.2 asks for more of them, and does without.
    if (key.starts_with(kReservedPrefix) && !is_mapping)
      return {"cmd=get_result rc=-1 msg=key_" + key + "_not_found value=unknown\n"};
    return {"cmd=get_result rc=0 msg=success value=" +
            (is_mapping ? functions.mapping() : functions.get(key)) + "\n"};
  }
  if (command == "barrier_in") {
    functions.barrier();
    return {"cmd=barrier_out\n"};
  }
  if (command == "finalize") return {.line = "cmd=finalize_ack\n", .is_last = true};
  throw Error(Errc::protocol,
              "MPICH asked its process manager for what this one does not know: " + line);
}

std::string process_mapping(const std::vector<int>& node_of_rank) {
  std::string text = "(vector";
  for (std::size_t first = 0; first < node_of_rank.size();) {
    std::size_t last = first;
    while (last < node_of_rank.size() && node_of_rank[last] == node_of_rank[first]) ++last;
    text += ",(" + std::to_string(node_of_rank[first]) + ",1," + std::to_string(last - first) + ")";
    first = last;
  }
  return text + ")";
}

}  // namespace ddprun::mpi

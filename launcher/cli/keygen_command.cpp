#include "launcher/cli/keygen_command.hpp"

#include "rendezvous/security/secret.hpp"

namespace ddprun {

namespace {

constexpr const char* kKeygenUsage =
    "Usage: ddprun keygen FILE    write a new secret for runs of several nodes\n"
    "FILE must not exist; it gets mode 600. Copy it to all nodes, with the same mode, and start\n"
    "ddprun with --secret_file=FILE. The exit code is 0 if FILE was written, 1 if it exists or\n"
    "cannot be written safely, and 2 for a wrong command line.\n"
    "A program called keygen is run as ./keygen.\n";

}  // namespace

std::optional<KeygenAnswer> run_keygen_command(const std::vector<std::string>& arguments,
                                               const Invocation& invocation) {
  const bool is_own = invocation.mode == CompatMode::ddprun;
  if (!is_own || arguments.empty() || arguments[0] != "keygen") return std::nullopt;
  if (arguments.size() == 2 && (arguments[1] == "--help" || arguments[1] == "-h"))
    return kKeygenUsage;
  if (arguments.size() != 2 || arguments[1].empty() || arguments[1][0] == '-') {
    return UsageProblem{
        {"keygen: needs the name of a file and nothing else; see 'ddprun keygen --help'; a program "
         "called keygen is run as ./keygen"}};
  }
  security::write_new_secret(arguments[1]);
  return "wrote a new secret to " + arguments[1] + "; copy it to all nodes, with mode 600\n";
}

}  // namespace ddprun

#include "launcher/cli/keygen_command.hpp"

#include "launcher/cli/help_text.hpp"
#include "rendezvous/security/secret.hpp"

namespace ddprun {

namespace {

constexpr const char* kKeygenUsage =
    "Usage: ddprun keygen FILE\n"
    "\n"
    "Writes a new secret for runs of several nodes to FILE, which must not exist, with mode 600. "
    "Copy FILE to all nodes, with the same mode, and start ddprun with --secret_file=FILE. The "
    "exit code is 0 if FILE was written, 1 if FILE exists or cannot be written safely, and 2 for "
    "a wrong command line.\n"
    "\n"
    "A program called keygen is run as ./keygen.";

}  // namespace

std::optional<KeygenAnswer> run_keygen_command(const std::vector<std::string>& arguments,
                                               const Invocation& invocation, int columns) {
  const bool is_own = invocation.mode == CompatMode::ddprun;
  if (!is_own || arguments.empty() || arguments[0] != "keygen") return std::nullopt;
  if (arguments.size() == 2 && (arguments[1] == "--help" || arguments[1] == "-h"))
    return wrap_usage(kKeygenUsage, columns);
  if (arguments.size() != 2 || arguments[1].empty() || arguments[1][0] == '-') {
    return UsageProblem{
        {"keygen: needs the name of a file and nothing else; see 'ddprun keygen --help'; a program "
         "called keygen is run as ./keygen"}};
  }
  security::write_new_secret(arguments[1]);
  return "wrote a new secret to " + arguments[1] + "; copy it to all nodes, with mode 600\n";
}

}  // namespace ddprun

#include "launcher/ssh/ssh_command.hpp"

#include "rendezvous/base/text.hpp"

namespace ddprun::ssh {

namespace {

// What ssh ends with when it has failed itself.
constexpr int kSshFailed = 255;
// What shells end with when they find no such program, or may not run it.
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

/// ssh begins what it says itself with its name.
std::string without_name(const std::string& line) {
  constexpr std::string_view kName = "ssh: ";
  return line.starts_with(kName) ? line.substr(kName.size()) : line;
}

}  // namespace

std::vector<std::string> ssh_command(const std::string& ssh, const SshSettings& settings,
                                     const std::string& destination) {
  std::vector<std::string> command = {ssh};
  // First, as ssh takes the first value that it is given for a setting.
  command.insert(command.end(), settings.options.begin(), settings.options.end());
  if (settings.port != 0) command.insert(command.end(), {"-p", std::to_string(settings.port)});
  if (!settings.user.empty()) command.insert(command.end(), {"-l", settings.user});
  for (const char* option :
       {// Nobody is there to answer a question.
        "BatchMode=yes", "ConnectTimeout=10",
        // A machine that has vanished is noticed after a minute, though nothing is being sent.
        "ServerAliveInterval=15", "ServerAliveCountMax=4",
        // A connection that is shared with other sessions would stay when this one is over.
        "ControlMaster=no", "ClearAllForwardings=yes", "ForwardX11=no"}) {
    command.insert(command.end(), {"-o", option});
  }
  command.insert(command.end(), {"-T", "--", destination});
  command.push_back("exec " + quoted_for_shell(settings.program) + " " + kAgentCommand);
  return command;
}

std::string quoted_for_shell(const std::string& word) {
  return "'" + join(split(word, '\''), "'\\''") + "'";
}

std::string describe_no_answer(int exit_code, const std::string& last, const std::string& program) {
  const auto said = last.empty() ? "" : ": " + without_name(last);
  if (exit_code == kNotFound || exit_code == kNotExecutable) {
    return program + " cannot be run there" + said +
           "; ssh.program in the file says where ddprun is";
  }
  if (exit_code == kSshFailed) return "ssh could not connect" + said;
  if (exit_code < 0) return "ssh was killed by signal " + std::to_string(-exit_code) + said;
  return "ddprun there ended with exit code " + std::to_string(exit_code) + " before it answered" +
         said;
}

}  // namespace ddprun::ssh

import org.apache.zookeeper.server.controller.CommandClient;
import org.apache.zookeeper.server.controller.ControlCommand;

/** Sends commands, each "ACTION" or "ACTION=PARAMETER", to a port of localhost; prints whether each was obeyed. */
public class Commands {
    public static void main(String[] arguments) {
        CommandClient client = new CommandClient(Integer.parseInt(arguments[0]));
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split("=");
            ControlCommand.Action action = ControlCommand.Action.valueOf(parts[0]);
            System.out.println(client.trySendCommand(action, parts.length > 1 ? parts[1] : null));
        }
        client.close();
    }
}

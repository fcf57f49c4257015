import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler;

/**
 * A YARN cluster in this process, until standard input ends. Its arguments are the number of nodes and the folder
 * for `yarn-site.xml`, by which clients reach it. When it is up, it prints the address of its REST API.
 */
public class MiniYarn {
    public static void main(String[] args) throws Exception {
        int nodes = Integer.parseInt(args[0]);
        Path folder = Path.of(args[1]);
        YarnConfiguration settings = new YarnConfiguration();
        settings.set(YarnConfiguration.RM_SCHEDULER, FifoScheduler.class.getName());
        settings.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 256);
        // Memory is measured, and a container that takes more than it asked for is killed, as on a real cluster.
        settings.setBoolean(YarnConfiguration.YARN_MINICLUSTER_CONTROL_RESOURCE_MONITORING, true);
        settings.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
        settings.setFloat(YarnConfiguration.NM_MAX_PER_DISK_UTILIZATION_PERCENTAGE, 100);
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", nodes, 1, 1);
        cluster.init(settings);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("not all nodes have joined");
        }
        try (var file = Files.newOutputStream(folder.resolve("yarn-site.xml"))) {
            cluster.getConfig().writeXml(file);
        }
        System.out.println("up: " + cluster.getConfig().get(YarnConfiguration.RM_WEBAPP_ADDRESS));
        System.in.readAllBytes();
        cluster.stop();
        System.exit(0); // threads of Hadoop may go on
    }
}

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Scanner;

/** Runs Kafka's tools in one warm JVM: reads the class and the arguments of each, and prints its output as a line. */
public class Tools {
    public static void main(String[] none) throws Exception {
        PrintStream out = System.out;
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split("\t");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true));
            Class.forName(words[0])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            System.setOut(out);
            System.out.println(printed.toString().trim().replace('\n', '\t'));
            System.out.flush();
        }
    }
}
